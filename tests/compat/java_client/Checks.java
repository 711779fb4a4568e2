import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.admin.PulsarAdmin;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;

/**
 * What the tests let the official Java client and admin client do: every check in one process, a line each,
 * its name, a tab, and "ok" or what went wrong.
 *
 * <pre>java -cp … Checks pulsar://… http://… [name …]</pre>
 */
public final class Checks {
    static final int TIMEOUT_S = 30;
    static final String NAMESPACE = "persistent://public/default/";

    final String url;
    final PulsarClient client;
    final PulsarAdmin admin;
    private final Set<String> wanted;

    interface Body {
        void run() throws Exception;
    }

    Checks(String url, String adminUrl, Set<String> wanted) throws Exception {
        this.url = url;
        this.wanted = wanted;
        client = PulsarClient.builder().serviceUrl(url).operationTimeout(TIMEOUT_S, TimeUnit.SECONDS).build();
        admin = PulsarAdmin.builder().serviceHttpUrl(adminUrl).build();
    }

    public static void main(String[] arguments) throws Exception {
        List<String> names = List.of(arguments).subList(2, arguments.length);
        Checks checks = new Checks(arguments[0], arguments[1], Set.copyOf(names));
        new Messages(checks).run();
        new Positions(checks).run();
        new Redelivery(checks).run();
        new Schemas(checks).run();
        new Administration(checks).run();
        new Upstream(checks).run();
        new Transactions(checks).run();
        checks.client.close();
        checks.admin.close();
        System.exit(0); // threads that the libraries leave behind are not waited for
    }

    void check(String name, Body body) {
        if (!wanted.isEmpty() && !wanted.contains(name)) {
            return;
        }
        String result = "ok";
        try {
            body.run();
        } catch (Throwable failure) {
            StringWriter text = new StringWriter();
            failure.printStackTrace(new PrintWriter(text));
            result = text.toString().replace("\n", " | ");
        }
        System.out.println(name + "\t" + result);
        System.out.flush();
    }

    // -- words that all of them use -----------------------------------------------------------------

    static String topic(String name) {
        return NAMESPACE + "java-" + name;
    }

    Consumer<byte[]> subscribe(String topic, String subscription) throws Exception {
        return client.newConsumer().topic(topic).subscriptionName(subscription)
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe();
    }

    /** Publishes "m0", "m1", … one by one, each an entry of its own. */
    void send(String topic, int first, int end) throws Exception {
        try (Producer<byte[]> producer = client.newProducer().topic(topic).enableBatching(false).create()) {
            for (int number = first; number < end; number++) {
                producer.send(("m" + number).getBytes());
            }
        }
    }

    /** Publishes the same as one batch. */
    void sendBatch(String topic, int first, int end) throws Exception {
        try (Producer<byte[]> producer = client.newProducer().topic(topic).batchingMaxMessages(end - first)
                .batchingMaxPublishDelay(10, TimeUnit.SECONDS).create()) {
            for (int number = first; number < end; number++) {
                producer.sendAsync(("m" + number).getBytes());
            }
            producer.flush();
        }
    }

    static <T> Message<T> receive(Consumer<T> consumer) throws Exception {
        Message<T> message = consumer.receive(TIMEOUT_S, TimeUnit.SECONDS);
        expect(message != null, "no message within " + TIMEOUT_S + " s");
        return message;
    }

    static List<String> receive(Consumer<byte[]> consumer, int count) throws Exception {
        List<String> texts = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            Message<byte[]> message = receive(consumer);
            texts.add(new String(message.getData(), StandardCharsets.UTF_8));
            consumer.acknowledge(message);
        }
        return texts;
    }

    static List<String> numbered(int first, int end) {
        List<String> texts = new ArrayList<>();
        for (int number = first; number < end; number++) {
            texts.add("m" + number);
        }
        return texts;
    }

    static void expect(boolean holds, String otherwise) {
        if (!holds) {
            throw new AssertionError(otherwise);
        }
    }

    static void same(Object expected, Object actual) {
        expect(expected.equals(actual), "expected " + expected + ", got " + actual);
    }

    static void refused(Class<? extends Exception> type, Body body) throws Exception {
        try {
            body.run();
        } catch (Exception failure) {
            expect(type.isInstance(failure), "expected " + type.getSimpleName() + ", got " + failure);
            return;
        }
        throw new AssertionError("not refused; expected " + type.getSimpleName());
    }

    /** Waits until something holds. */
    static void eventually(java.util.concurrent.Callable<Boolean> holds, String what) throws Exception {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(TIMEOUT_S);
        while (!holds.call()) {
            expect(System.nanoTime() < deadline, "not within " + TIMEOUT_S + " s: " + what);
            Thread.sleep(20);
        }
    }
}
