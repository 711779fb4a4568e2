import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.PulsarClientException;
import org.apache.pulsar.client.api.Reader;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.SubscriptionType;
import org.apache.pulsar.client.api.transaction.Transaction;
import org.apache.pulsar.client.api.transaction.TransactionCoordinatorClientException;

/** Transactions: messages and acks that count together, or not at all. Each check runs on Apache Pulsar too. */
final class Transactions {
    /** Nothing comes within this time. */
    private static final int SILENCE_MS = 500;

    private final Checks checks;
    private PulsarClient client;

    Transactions(Checks checks) {
        this.checks = checks;
    }

    void run() throws Exception {
        client = PulsarClient.builder().serviceUrl(checks.url).enableTransaction(true)
                .operationTimeout(Checks.TIMEOUT_S, TimeUnit.SECONDS).build();
        checks.check("txn_commit", () -> commit(false));
        checks.check("txn_commit_batched", () -> commit(true));
        checks.check("txn_abort", this::abort);
        checks.check("txn_order", this::order);
        checks.check("txn_two_topics", this::twoTopics);
        checks.check("txn_partitions", this::partitions);
        checks.check("txn_chunks", this::chunks);
        checks.check("txn_acks", this::acks);
        checks.check("txn_acks_aborted", this::acksAborted);
        checks.check("txn_conflict", this::conflict);
        checks.check("txn_cumulative", this::cumulative);
        checks.check("txn_batch_index_acks", this::batchIndexAcks);
        checks.check("txn_consume_and_produce", this::consumeAndProduce);
        checks.check("txn_ends_once", this::endsOnce);
        checks.check("txn_time_out", this::timeOut);
        checks.check("txn_readers", this::readers);
        checks.check("txn_many_at_once", this::manyAtOnce);
        client.close();
    }

    private Transaction open() throws Exception {
        return open(300);
    }

    private Transaction open(int seconds) throws Exception {
        return client.newTransaction().withTransactionTimeout(seconds, TimeUnit.SECONDS).build()
                .get(Checks.TIMEOUT_S, TimeUnit.SECONDS);
    }

    private static void commit(Transaction txn) throws Exception {
        txn.commit().get(Checks.TIMEOUT_S, TimeUnit.SECONDS);
        Checks.same(Transaction.State.COMMITTED, txn.getState());
    }

    private static void abort(Transaction txn) throws Exception {
        txn.abort().get(Checks.TIMEOUT_S, TimeUnit.SECONDS);
        Checks.same(Transaction.State.ABORTED, txn.getState());
    }

    /** A producer of entries of one message. A transaction takes no time-out of a send. */
    private Producer<byte[]> producer(String topic) throws Exception {
        return client.newProducer().topic(topic).enableBatching(false).sendTimeout(0, TimeUnit.SECONDS).create();
    }

    private Consumer<byte[]> shared(String topic) throws Exception {
        return consumer(topic, SubscriptionType.Shared);
    }

    private Consumer<byte[]> consumer(String topic, SubscriptionType type) throws Exception {
        return client.newConsumer().topic(topic).subscriptionName("s").subscriptionType(type)
                .isAckReceiptEnabled(true).enableBatchIndexAcknowledgment(true)
                .acknowledgmentGroupTime(0, TimeUnit.MILLISECONDS)
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe();
    }

    private static void nothing(Consumer<byte[]> consumer) throws Exception {
        Message<byte[]> message = consumer.receive(SILENCE_MS, TimeUnit.MILLISECONDS);
        Checks.expect(message == null, "received " + (message == null ? "" : new String(message.getData())));
    }

    private static List<Message<byte[]>> receive(Consumer<byte[]> consumer, int count) throws Exception {
        List<Message<byte[]>> messages = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            messages.add(Checks.receive(consumer));
        }
        return messages;
    }

    private static List<String> texts(List<Message<byte[]>> messages) {
        List<String> found = new ArrayList<>();
        for (Message<byte[]> message : messages) {
            found.add(new String(message.getData()));
        }
        return found;
    }

    private static void ack(Consumer<byte[]> consumer, Message<byte[]> message, Transaction txn) throws Exception {
        consumer.acknowledgeAsync(message.getMessageId(), txn).get(Checks.TIMEOUT_S, TimeUnit.SECONDS);
    }

    private static void conflicts(Checks.Body body) throws Exception {
        failsWith(PulsarClientException.TransactionConflictException.class, body);
    }

    private static void failsWith(Class<? extends Exception> type, Checks.Body body) throws Exception {
        try {
            body.run();
        } catch (ExecutionException failure) {
            Throwable cause = failure.getCause();
            while (cause != null && !type.isInstance(cause)) {
                cause = cause.getCause();
            }
            Checks.expect(cause != null, "expected " + type.getSimpleName() + ", got " + failure);
            return;
        }
        throw new AssertionError("not refused; expected " + type.getSimpleName());
    }

    // -- messages ----------------------------------------------------------------------------------

    private void commit(boolean isBatched) throws Exception {
        String topic = Checks.topic("txn-commit-" + isBatched);
        try (Producer<byte[]> producer = client.newProducer().topic(topic).enableBatching(isBatched)
                .sendTimeout(0, TimeUnit.SECONDS).create(); Consumer<byte[]> consumer = shared(topic)) {
            Transaction txn = open();
            for (int number = 0; number < 10; number++) {
                producer.newMessage(txn).value(("m" + number).getBytes()).sendAsync();
            }
            producer.flush();
            nothing(consumer);
            commit(txn);
            Checks.same(Checks.numbered(0, 10), Checks.receive(consumer, 10));
            nothing(consumer);
        }
    }

    private void abort() throws Exception {
        String topic = Checks.topic("txn-abort");
        try (Producer<byte[]> producer = producer(topic); Consumer<byte[]> consumer = shared(topic)) {
            Transaction txn = open();
            producer.newMessage(txn).value("aborted".getBytes()).send();
            abort(txn);
            producer.send("after".getBytes());
            Checks.same(List.of("after"), Checks.receive(consumer, 1));
            nothing(consumer);
        }
    }

    /** Nothing behind an open transaction's first message is delivered before it ends. */
    private void order() throws Exception {
        String topic = Checks.topic("txn-order");
        try (Producer<byte[]> producer = producer(topic); Consumer<byte[]> consumer = shared(topic)) {
            producer.send("m0".getBytes());
            Transaction first = open();
            Transaction second = open();
            producer.newMessage(first).value("m1".getBytes()).send();
            producer.newMessage(second).value("m2".getBytes()).send();
            producer.send("m3".getBytes());
            Checks.same(List.of("m0"), Checks.receive(consumer, 1));
            commit(second);
            nothing(consumer);
            commit(first);
            Checks.same(Checks.numbered(1, 4), Checks.receive(consumer, 3));
        }
    }

    private void twoTopics() throws Exception {
        String left = Checks.topic("txn-left");
        String right = Checks.topic("txn-right");
        try (Producer<byte[]> one = producer(left); Producer<byte[]> two = producer(right);
                Consumer<byte[]> consumer = client.newConsumer().topics(List.of(left, right))
                        .subscriptionName("s").subscriptionType(SubscriptionType.Shared).subscribe()) {
            for (boolean isCommitted : new boolean[] {false, true}) {
                Transaction txn = open();
                one.newMessage(txn).value(("left" + isCommitted).getBytes()).send();
                two.newMessage(txn).value(("right" + isCommitted).getBytes()).send();
                nothing(consumer);
                if (isCommitted) {
                    commit(txn);
                } else {
                    abort(txn);
                }
            }
            Checks.same(Set.of("lefttrue", "righttrue"), new HashSet<>(Checks.receive(consumer, 2)));
            nothing(consumer);
        }
    }

    private void partitions() throws Exception {
        String topic = Checks.topic("txn-parted");
        checks.admin.topics().createPartitionedTopic(topic, 3);
        try (Producer<byte[]> producer = producer(topic); Consumer<byte[]> consumer = shared(topic)) {
            Transaction txn = open();
            for (int number = 0; number < 9; number++) {
                producer.newMessage(txn).value(("m" + number).getBytes()).send();
            }
            nothing(consumer);
            commit(txn);
            List<Message<byte[]>> messages = receive(consumer, 9);
            Checks.same(new HashSet<>(Checks.numbered(0, 9)), new HashSet<>(texts(messages)));
            Transaction acking = open();
            for (Message<byte[]> message : messages) {
                ack(consumer, message, acking);
            }
            commit(acking);
        }
        try (Consumer<byte[]> consumer = shared(topic)) {
            nothing(consumer);
        }
    }

    private void chunks() throws Exception {
        String topic = Checks.topic("txn-chunks");
        byte[] large = new byte[300_000];
        large[299_999] = 7;
        try (Producer<byte[]> producer = client.newProducer().topic(topic).enableBatching(false).enableChunking(true)
                .chunkMaxMessageSize(100_000).sendTimeout(0, TimeUnit.SECONDS).create();
                Consumer<byte[]> consumer = shared(topic)) {
            Transaction aborted = open();
            producer.newMessage(aborted).value(new byte[300_000]).send();
            abort(aborted);
            Transaction txn = open();
            producer.newMessage(txn).value(large).send();
            nothing(consumer);
            commit(txn);
            Message<byte[]> message = Checks.receive(consumer);
            Checks.same(300_000, message.getData().length);
            Checks.same((byte) 7, message.getData()[299_999]);
            Transaction acking = open();
            ack(consumer, message, acking);
            commit(acking);
        }
        try (Consumer<byte[]> consumer = shared(topic)) {
            nothing(consumer);
        }
    }

    private void readers() throws Exception {
        String topic = Checks.topic("txn-readers");
        try (Producer<byte[]> producer = producer(topic)) {
            producer.send("m0".getBytes());
            Transaction aborted = open();
            producer.newMessage(aborted).value("aborted".getBytes()).send();
            abort(aborted);
            Transaction txn = open();
            producer.newMessage(txn).value("m1".getBytes()).send();
            try (Reader<byte[]> reader = client.newReader().topic(topic).startMessageId(MessageId.earliest).create()) {
                Checks.same("m0", new String(reader.readNext(Checks.TIMEOUT_S, TimeUnit.SECONDS).getData()));
                Checks.expect(!reader.hasMessageAvailable(), "what is not committed is available");
                commit(txn);
                Checks.eventually(reader::hasMessageAvailable, "what was committed is available");
                Checks.same("m1", new String(reader.readNext(Checks.TIMEOUT_S, TimeUnit.SECONDS).getData()));
                Checks.expect(!reader.hasMessageAvailable(), "a marker is available");
            }
        }
    }

    // -- acks --------------------------------------------------------------------------------------

    private void acks() throws Exception {
        String topic = Checks.topic("txn-acks");
        checks.send(topic, 0, 5);
        try (Consumer<byte[]> consumer = shared(topic)) {
            Transaction txn = open();
            for (Message<byte[]> message : receive(consumer, 5)) {
                ack(consumer, message, txn);
            }
            consumer.redeliverUnacknowledgedMessages();
            nothing(consumer); // they are pending
            commit(txn);
            Checks.eventually(() -> checks.admin.topics().getStats(topic).getSubscriptions().get("s")
                    .getMsgBacklog() == 0, "the backlog is empty");
        }
        try (Consumer<byte[]> consumer = shared(topic)) {
            nothing(consumer);
        }
    }

    private void acksAborted() throws Exception {
        String topic = Checks.topic("txn-acks-aborted");
        checks.send(topic, 0, 5);
        try (Consumer<byte[]> consumer = shared(topic)) {
            Transaction txn = open();
            for (Message<byte[]> message : receive(consumer, 5)) {
                ack(consumer, message, txn);
            }
            abort(txn);
            List<Message<byte[]>> again = receive(consumer, 5);
            Checks.same(new HashSet<>(Checks.numbered(0, 5)), new HashSet<>(texts(again)));
            for (Message<byte[]> message : again) {
                consumer.acknowledge(message);
            }
            nothing(consumer);
        }
    }

    private void conflict() throws Exception {
        String topic = Checks.topic("txn-conflict");
        checks.send(topic, 0, 2);
        try (Consumer<byte[]> consumer = shared(topic)) {
            List<Message<byte[]>> messages = receive(consumer, 2);
            Transaction first = open();
            ack(consumer, messages.get(0), first);
            Transaction second = open();
            conflicts(() -> ack(consumer, messages.get(0), second));
            // What failed in part is not committed.
            failsWith(PulsarClientException.TransactionHasOperationFailedException.class,
                    () -> second.commit().get(Checks.TIMEOUT_S, TimeUnit.SECONDS));
            abort(first);
            Transaction third = open();
            ack(consumer, Checks.receive(consumer), third);
            commit(third);
            Transaction fourth = open();
            conflicts(() -> ack(consumer, messages.get(0), fourth));
            consumer.acknowledge(messages.get(1));
        }
    }

    private void cumulative() throws Exception {
        String topic = Checks.topic("txn-cumulative");
        checks.send(topic, 0, 10);
        try (Consumer<byte[]> consumer = consumer(topic, SubscriptionType.Exclusive)) {
            List<Message<byte[]>> messages = receive(consumer, 10);
            Transaction first = open();
            consumer.acknowledgeCumulativeAsync(messages.get(4).getMessageId(), first)
                    .get(Checks.TIMEOUT_S, TimeUnit.SECONDS);
            Transaction second = open();
            conflicts(() -> consumer.acknowledgeCumulativeAsync(messages.get(6).getMessageId(), second)
                    .get(Checks.TIMEOUT_S, TimeUnit.SECONDS));
            consumer.acknowledgeCumulativeAsync(messages.get(5).getMessageId(), first)
                    .get(Checks.TIMEOUT_S, TimeUnit.SECONDS);
            commit(first);
        }
        try (Consumer<byte[]> consumer = consumer(topic, SubscriptionType.Exclusive)) {
            List<Message<byte[]>> messages = receive(consumer, 4);
            Checks.same(Checks.numbered(6, 10), texts(messages));
            Transaction txn = open();
            consumer.acknowledgeCumulativeAsync(messages.get(3).getMessageId(), txn)
                    .get(Checks.TIMEOUT_S, TimeUnit.SECONDS);
            abort(txn);
        }
        try (Consumer<byte[]> consumer = consumer(topic, SubscriptionType.Exclusive)) {
            Checks.same(Checks.numbered(6, 10), Checks.receive(consumer, 4));
        }
    }

    /** Messages of one batch in different transactions. */
    private void batchIndexAcks() throws Exception {
        String topic = Checks.topic("txn-batch-index");
        checks.sendBatch(topic, 0, 6);
        try (Consumer<byte[]> consumer = shared(topic)) {
            List<Message<byte[]>> messages = receive(consumer, 6);
            Transaction committed = open();
            Transaction aborted = open();
            ack(consumer, messages.get(0), committed);
            ack(consumer, messages.get(2), committed);
            ack(consumer, messages.get(1), aborted);
            Transaction third = open();
            conflicts(() -> ack(consumer, messages.get(2), third));
            commit(committed);
            abort(aborted);
            abort(third);
        }
        try (Consumer<byte[]> consumer = shared(topic)) {
            List<Message<byte[]>> messages = receive(consumer, 4);
            Checks.same(List.of("m1", "m3", "m4", "m5"), texts(messages));
            Transaction txn = open();
            for (Message<byte[]> message : messages) {
                ack(consumer, message, txn);
            }
            commit(txn);
        }
        try (Consumer<byte[]> consumer = shared(topic)) {
            nothing(consumer);
        }
    }

    /** Read, compute, write and acknowledge as one step: every second attempt fails and is done again. */
    private void consumeAndProduce() throws Exception {
        String from = Checks.topic("txn-from");
        String to = Checks.topic("txn-to");
        checks.send(from, 0, 10);
        try (Consumer<byte[]> source = shared(from); Consumer<byte[]> result = shared(to);
                Producer<byte[]> producer = producer(to)) {
            Set<String> failed = new HashSet<>();
            for (int done = 0; done < 10;) {
                Message<byte[]> message = Checks.receive(source);
                String text = new String(message.getData());
                Transaction txn = open();
                producer.newMessage(txn).value(text.getBytes()).send();
                ack(source, message, txn);
                if (failed.add(text)) {
                    abort(txn);
                } else {
                    commit(txn);
                    done++;
                }
            }
            Checks.same(new HashSet<>(Checks.numbered(0, 10)), new HashSet<>(Checks.receive(result, 10)));
            nothing(result);
            nothing(source);
        }
    }

    // -- ends --------------------------------------------------------------------------------------

    private void endsOnce() throws Exception {
        Transaction txn = open();
        commit(txn);
        failsWith(TransactionCoordinatorClientException.InvalidTxnStatusException.class,
                () -> txn.abort().get(Checks.TIMEOUT_S, TimeUnit.SECONDS));
        String topic = Checks.topic("txn-ended");
        try (Producer<byte[]> producer = producer(topic)) {
            failsWith(TransactionCoordinatorClientException.InvalidTxnStatusException.class,
                    () -> producer.newMessage(txn).value("late".getBytes()).sendAsync()
                            .get(Checks.TIMEOUT_S, TimeUnit.SECONDS));
        }
    }

    private void timeOut() throws Exception {
        String topic = Checks.topic("txn-time-out");
        checks.send(topic, 0, 1);
        try (Producer<byte[]> producer = producer(topic); Consumer<byte[]> consumer = shared(topic)) {
            Message<byte[]> message = Checks.receive(consumer);
            Transaction txn = open(1);
            producer.newMessage(txn).value("late".getBytes()).send();
            ack(consumer, message, txn);
            producer.send("behind".getBytes());
            // The broker aborts it: what it acked comes again, and what was behind its message comes.
            Checks.same(Set.of("m0", "behind"), new HashSet<>(Checks.receive(consumer, 2)));
            Checks.eventually(() -> txn.getState() == Transaction.State.TIME_OUT, "it has timed out");
            failsWith(TransactionCoordinatorClientException.InvalidTxnStatusException.class,
                    () -> txn.commit().get(Checks.TIMEOUT_S, TimeUnit.SECONDS));
            nothing(consumer);
        }
    }

    private void manyAtOnce() throws Exception {
        String topic = Checks.topic("txn-many");
        try (Producer<byte[]> producer = producer(topic); Consumer<byte[]> consumer = shared(topic)) {
            List<Transaction> opened = new ArrayList<>();
            for (int number = 0; number < 50; number++) {
                Transaction txn = open();
                producer.newMessage(txn).value(("m" + number).getBytes()).sendAsync();
                opened.add(txn);
            }
            for (int number = 49; number >= 0; number--) {
                if (number % 2 == 0) {
                    commit(opened.get(number));
                } else {
                    abort(opened.get(number));
                }
            }
            List<String> expected = new ArrayList<>();
            for (int number = 0; number < 50; number += 2) {
                expected.add("m" + number);
            }
            Checks.same(new HashSet<>(expected), new HashSet<>(Checks.receive(consumer, 25)));
            nothing(consumer);
        }
    }
}
