import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.CompressionType;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.KeySharedPolicy;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageRouter;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.ProducerAccessMode;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.PulsarClientException;
import org.apache.pulsar.client.api.Range;
import org.apache.pulsar.client.api.Reader;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.SubscriptionType;
import org.apache.pulsar.client.api.TableView;
import org.apache.pulsar.client.api.TopicMetadata;

/** Publishing and consuming: types of subscriptions, batches, chunks, partitions, keys, tables. */
final class Messages {
    private final Checks checks;
    private final PulsarClient client;

    Messages(Checks checks) {
        this.checks = checks;
        client = checks.client;
    }

    void run() {
        checks.check("exclusive", () -> type(SubscriptionType.Exclusive));
        checks.check("shared", () -> type(SubscriptionType.Shared));
        checks.check("failover", () -> type(SubscriptionType.Failover));
        checks.check("key_shared", () -> type(SubscriptionType.Key_Shared));
        checks.check("exclusive_refuses_a_second", this::exclusiveRefusesASecond);
        checks.check("shared_shares", this::sharedShares);
        checks.check("key_shared_keeps_keys_together", this::keysTogether);
        checks.check("key_shared_by_ranges", this::keyRanges);
        checks.check("properties_and_keys", this::properties);
        checks.check("compression", this::compression);
        checks.check("batch_index_ack", this::batchIndexAck);
        checks.check("ack_receipts", this::ackReceipts);
        checks.check("cumulative_ack", this::cumulativeAck);
        checks.check("batch_receive", this::batchReceive);
        checks.check("chunks", this::chunks);
        checks.check("partitioned", this::partitioned);
        checks.check("pattern", this::pattern);
        checks.check("non_persistent", this::nonPersistent);
        checks.check("exclusive_producer", this::exclusiveProducer);
        checks.check("deduplication", this::deduplication);
        checks.check("table_view", this::tableView);
        checks.check("read_compacted", this::readCompacted);
    }

    private void type(SubscriptionType type) throws Exception {
        for (boolean isBatched : new boolean[] {false, true}) {
            String topic = Checks.topic("type-" + type + isBatched);
            if (isBatched) {
                checks.sendBatch(topic, 0, 20);
            } else {
                checks.send(topic, 0, 20);
            }
            try (Consumer<byte[]> consumer = open(topic, type, "a")) {
                Checks.same(Checks.numbered(0, 12), Checks.receive(consumer, 12));
            }
            try (Consumer<byte[]> consumer = open(topic, type, "b")) {
                Checks.same(Checks.numbered(12, 20), Checks.receive(consumer, 8));
            }
        }
    }

    /** With receipts and batch index acks, so that what was acked stays acked for the next. */
    private Consumer<byte[]> open(String topic, SubscriptionType type, String name) throws Exception {
        return client.newConsumer().topic(topic).subscriptionName("s").subscriptionType(type).consumerName(name)
                .isAckReceiptEnabled(true).enableBatchIndexAcknowledgment(true)
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe();
    }

    private void exclusiveRefusesASecond() throws Exception {
        String topic = Checks.topic("one");
        try (Consumer<byte[]> first = open(topic, SubscriptionType.Exclusive, "a")) {
            Checks.refused(PulsarClientException.ConsumerBusyException.class,
                    () -> open(topic, SubscriptionType.Exclusive, "b"));
        }
    }

    private void sharedShares() throws Exception {
        String topic = Checks.topic("shares");
        List<Consumer<byte[]>> consumers = new ArrayList<>();
        for (String name : List.of("a", "b", "c")) {
            consumers.add(client.newConsumer().topic(topic).subscriptionName("s").consumerName(name)
                    .subscriptionType(SubscriptionType.Shared).receiverQueueSize(10).subscribe());
        }
        checks.send(topic, 0, 60);
        Set<String> seen = new HashSet<>();
        int served = 0;
        for (Consumer<byte[]> consumer : consumers) {
            int before = seen.size();
            for (int number = 0; number < 20; number++) {
                seen.addAll(Checks.receive(consumer, 1));
            }
            served += seen.size() > before ? 1 : 0;
            consumer.close();
        }
        Checks.same(3, served);
        Checks.same(new HashSet<>(Checks.numbered(0, 60)), seen);
    }

    private void keysTogether() throws Exception {
        String topic = Checks.topic("keys");
        try (Consumer<byte[]> one = open(topic, SubscriptionType.Key_Shared, "a");
                Consumer<byte[]> two = open(topic, SubscriptionType.Key_Shared, "b");
                Producer<byte[]> producer = client.newProducer().topic(topic).enableBatching(false).create()) {
            for (int number = 0; number < 100; number++) {
                producer.newMessage().key("k" + number % 10).value(("m" + number).getBytes()).send();
            }
            Map<String, String> owners = new HashMap<>();
            Map<String, Integer> last = new HashMap<>();
            int count = 0;
            for (Consumer<byte[]> consumer : List.of(one, two)) {
                Message<byte[]> message = consumer.receive(2, TimeUnit.SECONDS);
                for (; message != null; message = consumer.receive(2, TimeUnit.SECONDS)) {
                    String key = message.getKey();
                    String owner = owners.computeIfAbsent(key, any -> consumer.getConsumerName());
                    Checks.same(owner, consumer.getConsumerName());
                    int number = Integer.parseInt(new String(message.getData()).substring(1));
                    Checks.expect(last.getOrDefault(key, -1) < number, key + " is out of order");
                    last.put(key, number);
                    consumer.acknowledge(message);
                    count++;
                }
            }
            Checks.same(100, count);
        }
    }

    private void keyRanges() throws Exception {
        String topic = Checks.topic("ranges");
        try (Consumer<byte[]> low = sticky(topic, 0, 32767); Consumer<byte[]> high = sticky(topic, 32768, 65535)) {
            Checks.refused(PulsarClientException.ConsumerAssignException.class, () -> sticky(topic, 100, 200));
            try (Producer<byte[]> producer = client.newProducer().topic(topic).enableBatching(false).create()) {
                for (int number = 0; number < 40; number++) {
                    producer.newMessage().key("k" + number).value(("m" + number).getBytes()).send();
                }
            }
            int count = 0;
            for (Consumer<byte[]> consumer : List.of(low, high)) {
                int before = count;
                while (consumer.receive(2, TimeUnit.SECONDS) != null) {
                    count++;
                }
                Checks.expect(count > before, "one of two got nothing");
            }
            Checks.same(40, count);
        }
    }

    private Consumer<byte[]> sticky(String topic, int first, int last) throws Exception {
        return client.newConsumer().topic(topic).subscriptionName("s").subscriptionType(SubscriptionType.Key_Shared)
                .keySharedPolicy(KeySharedPolicy.stickyHashRange().ranges(Range.of(first, last))).subscribe();
    }

    private void properties() throws Exception {
        String topic = Checks.topic("properties");
        try (Consumer<byte[]> consumer = checks.subscribe(topic, "s");
                Producer<byte[]> producer = client.newProducer().topic(topic).producerName("writer").create()) {
            producer.newMessage().key("k").orderingKey("o".getBytes()).property("a", "b").eventTime(12345)
                    .sequenceId(7).value("v".getBytes()).send();
            Message<byte[]> message = Checks.receive(consumer);
            Checks.same("k", message.getKey());
            Checks.same("o", new String(message.getOrderingKey()));
            Checks.same(Map.of("a", "b"), message.getProperties());
            Checks.same(12345L, message.getEventTime());
            Checks.same(7L, message.getSequenceId());
            Checks.same("writer", message.getProducerName());
            Checks.same(topic, message.getTopicName());
            Checks.same(0L, message.getIndex().get());
            Checks.expect(message.getBrokerPublishTime().isPresent(), "no time of the broker");
            producer.newMessage().value(null).send();
            Checks.same(0, Checks.receive(consumer).size());
        }
    }

    private void compression() throws Exception {
        for (CompressionType type : CompressionType.values()) {
            String topic = Checks.topic("compressed-" + type);
            byte[] payload = "again and again ".repeat(500).getBytes();
            try (Consumer<byte[]> consumer = checks.subscribe(topic, "s"); Producer<byte[]> producer =
                    client.newProducer().topic(topic).compressionType(type).create()) {
                for (int number = 0; number < 5; number++) {
                    producer.sendAsync(payload);
                }
                producer.flush();
                for (int number = 0; number < 5; number++) {
                    Checks.expect(Arrays.equals(payload, Checks.receive(consumer).getData()), type.toString());
                }
            }
        }
    }

    private void batchIndexAck() throws Exception {
        String topic = Checks.topic("batch-index");
        checks.sendBatch(topic, 0, 10);
        try (Consumer<byte[]> consumer = open(topic, SubscriptionType.Shared, "a")) {
            for (int number = 0; number < 10; number++) {
                Message<byte[]> message = Checks.receive(consumer);
                if (number % 2 == 0) {
                    consumer.acknowledge(message);
                }
            }
        }
        try (Consumer<byte[]> consumer = open(topic, SubscriptionType.Shared, "b")) {
            Checks.same(List.of("m1", "m3", "m5", "m7", "m9"), Checks.receive(consumer, 5));
        }
    }

    private void ackReceipts() throws Exception {
        String topic = Checks.topic("receipts");
        checks.send(topic, 0, 5);
        try (Consumer<byte[]> consumer = client.newConsumer().topic(topic).subscriptionName("s")
                .isAckReceiptEnabled(true).acknowledgmentGroupTime(0, TimeUnit.MILLISECONDS)
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe()) {
            for (int number = 0; number < 5; number++) {
                consumer.acknowledgeAsync(Checks.receive(consumer)).get(Checks.TIMEOUT_S, TimeUnit.SECONDS);
            }
            Checks.same(0L, checks.admin.topics().getStats(topic).getSubscriptions().get("s").getMsgBacklog());
        }
    }

    private void cumulativeAck() throws Exception {
        String topic = Checks.topic("cumulative");
        checks.sendBatch(topic, 0, 10);
        try (Consumer<byte[]> consumer = open(topic, SubscriptionType.Exclusive, "a")) {
            for (int number = 0; number < 10; number++) {
                Message<byte[]> message = Checks.receive(consumer);
                if (number == 6) {
                    consumer.acknowledgeCumulative(message);
                }
            }
        }
        try (Consumer<byte[]> consumer = open(topic, SubscriptionType.Exclusive, "b")) {
            Checks.same(Checks.numbered(7, 10), Checks.receive(consumer, 3));
        }
    }

    private void batchReceive() throws Exception {
        String topic = Checks.topic("batch-receive");
        checks.send(topic, 0, 30);
        try (Consumer<byte[]> consumer = checks.subscribe(topic, "s")) {
            List<String> texts = new ArrayList<>();
            while (texts.size() < 30) {
                for (Message<byte[]> message : consumer.batchReceive()) {
                    texts.add(new String(message.getData()));
                    consumer.acknowledge(message);
                }
            }
            Checks.same(Checks.numbered(0, 30), texts);
        }
    }

    private void chunks() throws Exception {
        String topic = Checks.topic("chunks");
        byte[] large = new byte[300_000];
        new java.util.Random(7).nextBytes(large);
        try (Consumer<byte[]> consumer = checks.subscribe(topic, "s"); Producer<byte[]> producer = client.newProducer()
                .topic(topic).enableBatching(false).enableChunking(true).chunkMaxMessageSize(100_000).create()) {
            producer.send("before".getBytes());
            producer.send(large);
            producer.send("after".getBytes());
            Checks.same(List.of("before"), Checks.receive(consumer, 1));
            Message<byte[]> message = Checks.receive(consumer);
            Checks.expect(Arrays.equals(large, message.getData()), "the chunks are another message");
            consumer.acknowledge(message);
            Checks.same(List.of("after"), Checks.receive(consumer, 1));
            // Its id is the last chunk's, and leads to its first.
            consumer.seek(message.getMessageId());
            try (Reader<byte[]> reader = client.newReader().topic(topic).startMessageId(message.getMessageId())
                    .startMessageIdInclusive().create()) {
                Checks.expect(Arrays.equals(large, reader.readNext(30, TimeUnit.SECONDS).getData()), "read again");
            }
        }
    }

    private void partitioned() throws Exception {
        String topic = Checks.topic("partitioned");
        checks.admin.topics().createPartitionedTopic(topic, 3);
        try (Consumer<byte[]> consumer = checks.subscribe(topic, "s")) {
            MessageRouter router = new MessageRouter() {
                @Override
                public int choosePartition(Message<?> message, TopicMetadata metadata) {
                    return Integer.parseInt(message.getKey()) % metadata.numPartitions();
                }
            };
            try (Producer<byte[]> producer = client.newProducer().topic(topic).messageRouter(router).create()) {
                for (int number = 0; number < 30; number++) {
                    producer.newMessage().key(String.valueOf(number)).value(("m" + number).getBytes()).send();
                }
            }
            List<String> texts = Checks.receive(consumer, 30);
            Checks.same(new HashSet<>(Checks.numbered(0, 30)), new HashSet<>(texts));
            Checks.same(3, consumer.getLastMessageIds().size());
            // More partitions are found without a new subscription.
            checks.admin.topics().updatePartitionedTopic(topic, 5);
            Checks.same(5, client.getPartitionsForTopic(topic).get().size());
        }
    }

    private void pattern() throws Exception {
        checks.send(Checks.topic("pattern-a"), 0, 1);
        try (Consumer<byte[]> consumer = client.newConsumer()
                .topicsPattern("persistent://public/default/java-pattern-.*").subscriptionName("s")
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest)
                .patternAutoDiscoveryPeriod(1, TimeUnit.MINUTES).subscribe()) {
            Checks.same(List.of("m0"), Checks.receive(consumer, 1));
            // A topic that comes later is told by the broker, long before the next look round.
            checks.send(Checks.topic("pattern-b"), 1, 2);
            Checks.same(List.of("m1"), Checks.receive(consumer, 1));
        }
    }

    private void nonPersistent() throws Exception {
        String topic = "non-persistent://public/default/java-volatile";
        try (Consumer<byte[]> consumer = client.newConsumer().topic(topic).subscriptionName("s").subscribe()) {
            checks.send(topic, 0, 10);
            Checks.same(Checks.numbered(0, 10), Checks.receive(consumer, 10));
        }
    }

    private void exclusiveProducer() throws Exception {
        String topic = Checks.topic("producers");
        Producer<byte[]> first = client.newProducer().topic(topic).accessMode(ProducerAccessMode.Exclusive).create();
        Checks.refused(PulsarClientException.ProducerBusyException.class,
                () -> client.newProducer().topic(topic).create());
        Producer<byte[]> second =
                client.newProducer().topic(topic).accessMode(ProducerAccessMode.ExclusiveWithFencing).create();
        Checks.refused(PulsarClientException.class, () -> first.send("late".getBytes()));
        second.send("m0".getBytes());
        second.close();
        first.close();
    }

    private void deduplication() throws Exception {
        String topic = Checks.topic("dedup");
        checks.admin.topics().createNonPartitionedTopic(topic);
        checks.admin.topicPolicies().setDeduplicationStatus(topic, true);
        try (Consumer<byte[]> consumer = checks.subscribe(topic, "s");
                Producer<byte[]> producer = client.newProducer().topic(topic).producerName("p").create()) {
            for (long sequence : new long[] {0, 1, 1, 0, 2}) {
                producer.newMessage().sequenceId(sequence).value(("m" + sequence).getBytes()).send();
            }
            Checks.same(2L, producer.getLastSequenceId());
            Checks.same(Checks.numbered(0, 3), Checks.receive(consumer, 3));
        }
    }

    private void tableView() throws Exception {
        String topic = Checks.topic("table");
        try (Producer<String> producer = client.newProducer(Schema.STRING).topic(topic).create();
                TableView<String> table = client.newTableView(Schema.STRING).topic(topic).create()) {
            producer.newMessage().key("a").value("1").send();
            producer.newMessage().key("b").value("2").send();
            producer.newMessage().key("a").value("3").send();
            producer.newMessage().key("b").value(null).send();
            table.refreshAsync().get(Checks.TIMEOUT_S, TimeUnit.SECONDS);
            Checks.same(Map.of("a", "3"), new HashMap<>(Map.copyOf(toMap(table))));
        }
    }

    private static Map<String, String> toMap(TableView<String> table) {
        Map<String, String> seen = new HashMap<>();
        table.forEach(seen::put);
        return seen;
    }

    private void readCompacted() throws Exception {
        String topic = Checks.topic("compacted");
        try (Producer<byte[]> producer = client.newProducer().topic(topic).enableBatching(false).create()) {
            for (int number = 0; number < 9; number++) {
                producer.newMessage().key("k" + number % 3).value(("m" + number).getBytes()).send();
            }
        }
        checks.admin.topics().triggerCompaction(topic);
        Checks.eventually(() -> checks.admin.topics().compactionStatus(topic).status.toString().equals("SUCCESS"),
                "compaction");
        try (Reader<byte[]> reader = client.newReader().topic(topic).readCompacted(true)
                .startMessageId(org.apache.pulsar.client.api.MessageId.earliest).create()) {
            List<String> texts = new ArrayList<>();
            while (reader.hasMessageAvailable()) {
                texts.add(new String(reader.readNext().getData()));
            }
            Checks.same(Checks.numbered(6, 9), texts);
        }
    }

}
