import java.io.IOException;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.ConsumerBuilder;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.MessageIdAdv;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.PulsarClientException;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.SubscriptionType;

/**
 * The official Java client as load of a cluster that has faults: `Faults URL HISTORY SEED TOPIC...`.
 *
 * For each topic it publishes batches, consumes with acks that are answered, and seeks. Everything is written as a
 * history of milepost.testing.checker. A line on its standard input ends the publishing, the end of the input the rest.
 */
final class Faults {
    private static final long FIRST_N = 1L << 40;
    private static final int RECEIVE_MS = 200;
    private static final int ACK_S = 15;

    private final PulsarClient client;
    private final PrintStream history;
    private final long seed;
    private long next = FIRST_N;
    private volatile boolean publishes = true;
    private volatile boolean runs = true;

    private interface Work {
        void run(String topic, Random random) throws Exception;
    }

    private Faults(String url, String file, long seed) throws IOException {
        client = PulsarClient.builder().serviceUrl(url).operationTimeout(10, TimeUnit.SECONDS)
                .connectionTimeout(3, TimeUnit.SECONDS).build();
        history = new PrintStream(file, "UTF-8");
        this.seed = seed;
        history.println("{\"history\": 1}");
    }

    public static void main(String[] args) throws Exception {
        Faults faults = new Faults(args[0], args[1], Long.parseLong(args[2]));
        List<Thread> publishing = new ArrayList<>();
        List<Thread> others = new ArrayList<>();
        for (int at = 3; at < args.length; at++) {
            publishing.add(faults.start(args[at], at, faults::publish));
            others.add(faults.start(args[at], at + 100, faults::consume));
            others.add(faults.start(args[at], at + 200, faults::seek));
        }
        System.in.read();
        faults.publishes = false;
        for (Thread thread : publishing) {
            thread.join();
        }
        System.out.println("published");
        System.out.flush();
        while (System.in.read() >= 0) {
            continue;
        }
        faults.runs = false;
        for (Thread thread : others) {
            thread.join();
        }
        faults.history.close();
        faults.client.shutdown();
    }

    private Thread start(String topic, int number, Work work) {
        Thread thread = new Thread(() -> {
            try {
                work.run(topic, new Random(seed * 1000 + number));
            } catch (Throwable failure) {
                failure.printStackTrace();
                System.exit(1);
            }
        });
        thread.start();
        return thread;
    }

    // -- the history ---------------------------------------------------------------------------------------------

    private synchronized long invoke(String op, String fields) {
        long n = next++;
        line("\"is\": \"invoke\", \"op\": \"" + op + "\", \"n\": " + n + ", " + fields);
        return n;
    }

    private synchronized void end(String outcome, long n, String fields) {
        line("\"is\": \"" + outcome + "\", \"n\": " + n + fields);
    }

    private synchronized void note(String op, String fields) {
        line("\"op\": \"" + op + "\", " + fields);
    }

    private void line(String fields) {
        double now = System.nanoTime() / 1e9;
        history.println("{\"t\": " + String.format(Locale.ROOT, "%.9f", now) + ", " + fields + "}");
    }

    private static String field(String name, String value) {
        return "\"" + name + "\": \"" + value + "\"";
    }

    private static String group(String topic, String subscription, String by) {
        return field("topic", topic) + ", " + field("sub", subscription) + ", " + field("by", by);
    }

    private static String id(MessageId id) {
        MessageIdAdv known = (MessageIdAdv) id;
        if (known.getEntryId() < 0) {
            return "null";  // it was there already
        }
        return "[" + known.getLedgerId() + ", " + known.getEntryId() + ", " + known.getBatchIndex() + "]";
    }

    // -- publishing ----------------------------------------------------------------------------------------------

    private void publish(String topic, Random random) throws Exception {
        Producer<byte[]> producer = null;
        while (producer == null) {
            try {
                producer = client.newProducer().topic(topic).producerName("java").sendTimeout(0, TimeUnit.SECONDS)
                        .blockIfQueueFull(true).create();
            } catch (PulsarClientException failure) {
                Thread.sleep(100);
            }
        }
        List<CompletableFuture<?>> under = new ArrayList<>();
        for (int number = 0; publishes;) {
            for (int count = 1 + random.nextInt(4); count > 0; count--) {
                String name = "java-" + number++;
                long asked = invoke("publish", field("topic", topic) + ", " + field("message", name) + ", "
                        + field("by", "java"));
                under.add(producer.sendAsync(name.getBytes()).handle((sent, failure) -> {
                    if (failure == null) {
                        end("ok", asked, ", \"id\": " + id(sent));
                    } else {
                        end("unknown", asked, "");
                    }
                    return null;
                }));
            }
            Thread.sleep(100);
        }
        producer.flush();
        CompletableFuture.allOf(under.toArray(new CompletableFuture[0])).join();
    }

    // -- consuming -----------------------------------------------------------------------------------------------

    private ConsumerBuilder<byte[]> consumer(String topic, String subscription) {
        return client.newConsumer().topic(topic).subscriptionName(subscription).receiverQueueSize(50)
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest)
                .enableBatchIndexAcknowledgment(true).isAckReceiptEnabled(true)
                .acknowledgmentGroupTime(0, TimeUnit.MILLISECONDS).startMessageIdInclusive();
    }

    private void received(String group, Message<byte[]> message) {
        note("receive", group + ", " + field("message", new String(message.getData())) + ", \"id\": "
                + id(message.getMessageId()) + message.getIndex().map(index -> ", \"index\": " + index).orElse(""));
    }

    /**
     * True if the ack was answered. Without a connection this client calls an ack done that it has not sent; and
     * one that it was about to send when it lost the connection is never sent, and waits for ever.
     */
    private boolean acked(Consumer<byte[]> consumer, String group, List<Message<byte[]>> messages)
            throws InterruptedException {
        List<MessageId> ids = new ArrayList<>();
        StringBuilder names = new StringBuilder();
        for (Message<byte[]> message : messages) {
            ids.add(message.getMessageId());
            names.append(names.length() > 0 ? ", " : "").append('"').append(new String(message.getData())).append('"');
        }
        if (ids.isEmpty()) {
            return true;
        }
        long asked = invoke("ack", group + ", \"messages\": [" + names + "]");
        boolean isSent = consumer.isConnected();
        try {
            consumer.acknowledgeAsync(ids).get(ACK_S, TimeUnit.SECONDS);
            isSent &= consumer.isConnected();
        } catch (ExecutionException | TimeoutException failure) {
            isSent = false;
        }
        end(isSent ? "ok" : "unknown", asked, "");
        return isSent;
    }

    /** Up to so many messages that are there. */
    private List<Message<byte[]>> taken(Consumer<byte[]> consumer, String group, int count)
            throws PulsarClientException {
        List<Message<byte[]>> found = new ArrayList<>();
        while (found.size() < count) {
            Message<byte[]> message = consumer.receive(RECEIVE_MS, TimeUnit.MILLISECONDS);
            if (message == null) {
                break;
            }
            received(group, message);
            found.add(message);
        }
        return found;
    }

    /** Come anew every few seconds: what was acked durably before must not come again. */
    private void consume(String topic, Random random) throws Exception {
        for (int life = 0; runs; life++) {
            String group = group(topic, "java", "java-" + life);
            long until = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(2000 + random.nextInt(4000));
            note("join", group + ", " + field("mode", "queue"));
            try (Consumer<byte[]> consumer = consumer(topic, "java").subscriptionType(SubscriptionType.Shared)
                    .subscribe()) {
                while (runs && System.nanoTime() < until) {
                    if (!acked(consumer, group, taken(consumer, group, 1 + random.nextInt(40)))) {
                        break;
                    }
                }
            } catch (PulsarClientException failure) {
                Thread.sleep(100);
            }
        }
    }

    /** Seek on subscriptions of its own, each until the outcome of a seek is not known. */
    private void seek(String topic, Random random) throws Exception {
        for (int life = 0; runs; life++) {
            String subscription = "java-sought-" + life;
            String group = group(topic, subscription, subscription);
            long until = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(6000 + random.nextInt(6000));
            note("join", group + ", " + field("mode", "queue"));
            try (Consumer<byte[]> consumer = consumer(topic, subscription).subscribe()) {
                List<Message<byte[]>> known = new ArrayList<>();
                while (runs && System.nanoTime() < until && step(consumer, group, known, random)) {
                    continue;
                }
            } catch (PulsarClientException failure) {
                Thread.sleep(100);
            }
        }
    }

    private boolean step(Consumer<byte[]> consumer, String group, List<Message<byte[]>> known, Random random)
            throws PulsarClientException, InterruptedException {
        List<Message<byte[]>> some = new ArrayList<>();
        for (Message<byte[]> message : taken(consumer, group, random.nextInt(20))) {
            if (message.getIndex().isPresent()) {
                known.add(message);
            }
            if (random.nextInt(3) == 0) {
                some.add(message);
            }
        }
        if (!acked(consumer, group, some)) {
            return false;
        }
        if (known.isEmpty()) {
            return true;
        }
        Message<byte[]> target = known.get(random.nextInt(known.size()));
        long asked = invoke("seek", group + ", \"index\": " + target.getIndex().get());
        try {
            consumer.seek(target.getMessageId());
        } catch (PulsarClientException failure) {
            end("unknown", asked, "");
            return false;
        }
        end("ok", asked, "");
        return true;
    }
}
