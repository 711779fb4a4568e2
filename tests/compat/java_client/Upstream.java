import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.regex.Pattern;
import org.apache.pulsar.client.admin.PulsarAdmin;
import org.apache.pulsar.client.admin.PulsarAdminException;
import org.apache.pulsar.client.admin.Topics;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.Reader;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;

/** What a program sees that was written for Apache Pulsar, where a broker could easily do something else. */
final class Upstream {
    private final Checks checks;
    private final PulsarClient client;
    private final PulsarAdmin admin;

    Upstream(Checks checks) {
        this.checks = checks;
        client = checks.client;
        admin = checks.admin;
    }

    void run() {
        checks.check("upstream_reader_from_a_time_ago", this::readerFromATimeAgo);
        checks.check("upstream_end_of_a_terminated_topic", this::endOfATerminatedTopic);
        checks.check("upstream_pattern_of_unused_partitions", this::patternOfUnusedPartitions);
        checks.check("upstream_properties_of_peeked_messages", this::propertiesOfPeekedMessages);
        checks.check("upstream_names_that_are_encoded", this::namesThatAreEncoded);
        checks.check("upstream_unload_begins_a_ledger", this::unloadBeginsALedger);
        checks.check("upstream_receipt_ahead_of_the_message", this::receiptAheadOfTheMessage);
        checks.check("upstream_peeking_makes_a_subscription", this::peekingMakesASubscription);
        checks.check("upstream_dynamic_settings_are_kept", this::dynamicSettingsAreKept);
    }

    private void readerFromATimeAgo() throws Exception {
        String topic = Checks.topic("ago");
        checks.send(topic, 0, 3);
        Thread.sleep(6000); // the time that is to pass between the messages
        long between = System.nanoTime() - TimeUnit.SECONDS.toNanos(3);
        checks.send(topic, 3, 5);
        long ago = TimeUnit.NANOSECONDS.toSeconds(System.nanoTime() - between);
        try (Reader<byte[]> reader = client.newReader().topic(topic)
                .startMessageFromRollbackDuration(ago, TimeUnit.SECONDS).create()) {
            List<String> texts = new ArrayList<>();
            while (reader.hasMessageAvailable()) {
                texts.add(new String(reader.readNext(Checks.TIMEOUT_S, TimeUnit.SECONDS).getData()));
            }
            Checks.same(Checks.numbered(3, 5), texts);
        }
    }

    private void endOfATerminatedTopic() throws Exception {
        String topic = Checks.topic("ended");
        checks.send(topic, 0, 4);
        try (Consumer<byte[]> consumer = client.newConsumer().topic(topic).subscriptionName("s")
                .acknowledgmentGroupTime(0, TimeUnit.SECONDS)
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe()) {
            admin.topics().terminateTopic(topic);
            for (int number = 0; number < 4; number++) {
                Message<byte[]> message = Checks.receive(consumer);
                Checks.expect(!consumer.hasReachedEndOfTopic(), "the end was reached with messages left");
                consumer.acknowledge(message);
            }
            Checks.eventually(consumer::hasReachedEndOfTopic, "the end of the topic");
        }
    }

    private void patternOfUnusedPartitions() throws Exception {
        String topic = Checks.topic("unused-partitions");
        admin.topics().createPartitionedTopic(topic, 3);
        try (Consumer<byte[]> consumer = client.newConsumer().topicsPattern(Pattern.compile(topic + ".*"))
                .subscriptionName("s").subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe()) {
            checks.send(topic, 0, 6);
            List<String> texts = Checks.receive(consumer, 6);
            Collections.sort(texts);
            Checks.same(Checks.numbered(0, 6), texts);
        }
    }

    private void propertiesOfPeekedMessages() throws Exception {
        String topic = Checks.topic("peeked");
        checks.subscribe(topic, "s").close();
        Map<String, String> properties = Map.of("a", "b", "k-l", "x y");
        try (Producer<byte[]> single = client.newProducer().topic(topic).enableBatching(false).create()) {
            single.newMessage().properties(properties).value("m0".getBytes()).send();
        }
        try (Producer<byte[]> batched = client.newProducer().topic(topic).create()) {
            batched.newMessage().properties(properties).value("m1".getBytes()).send();
        }
        List<Message<byte[]>> peeked = admin.topics().peekMessages(topic, "s", 2);
        Checks.same(2, peeked.size());
        for (Message<byte[]> message : peeked) {
            for (Map.Entry<String, String> each : properties.entrySet()) {
                Checks.same(each.getValue(), String.valueOf(message.getProperties().get(each.getKey())));
            }
        }
    }

    private void namesThatAreEncoded() throws Exception {
        for (String name : List.of("a%2Fb", "a b", "a+b", "a%20b")) {
            String topic = Checks.topic("name-" + name);
            checks.send(topic, 0, 2);
            Topics topics = admin.topics();
            topics.createSubscription(topic, "my sub", MessageId.earliest);
            topics.createSubscription(topic, "a/b+c", MessageId.earliest);
            Checks.same(2L, topics.getStats(topic).getSubscriptions().get("my sub").getMsgBacklog());
            topics.skipMessages(topic, "a/b+c", 1);
            Checks.same(1L, topics.getStats(topic).getSubscriptions().get("a/b+c").getMsgBacklog());
            Checks.expect(topics.getList("public/default").contains(topic), topic + " is not listed");
            try (Consumer<byte[]> consumer = checks.subscribe(topic, "my sub")) {
                Checks.same(Checks.numbered(0, 2), Checks.receive(consumer, 2));
            }
            topics.delete(topic, true);
            Checks.expect(!topics.getList("public/default").contains(topic), topic + " is still listed");
        }
    }

    private void unloadBeginsALedger() throws Exception {
        String topic = Checks.topic("unloaded");
        checks.send(topic, 0, 2);
        admin.topics().unload(topic);
        checks.send(topic, 2, 3);
        Checks.same(2, admin.topics().getInternalStats(topic).ledgers.size());
    }

    private void receiptAheadOfTheMessage() throws Exception {
        String topic = Checks.topic("receipts");
        AtomicInteger receipts = new AtomicInteger();
        try (Consumer<byte[]> consumer = checks.subscribe(topic, "s");
                Producer<byte[]> producer = client.newProducer().topic(topic).enableBatching(false).create()) {
            for (int number = 0; number < 100; number++) {
                producer.sendAsync(("m" + number).getBytes()).thenRun(receipts::incrementAndGet);
                Checks.receive(consumer);
                int seen = number + 1;
                // The client completes it on another thread than the one that hands out messages.
                Checks.eventually(() -> receipts.get() == seen, "receipt " + seen);
            }
        }
    }

    private void peekingMakesASubscription() throws Exception {
        String topic = Checks.topic("peeked-first");
        checks.send(topic, 0, 2);
        Checks.same("m0", new String(admin.topics().peekMessages(topic, "new", 1).get(0).getData()));
        Checks.same(List.of("new"), admin.topics().getSubscriptions(topic));
    }

    private void dynamicSettingsAreKept() throws Exception {
        String key = "loadBalancerSheddingExcludedNamespaces";
        Checks.expect(admin.brokers().getDynamicConfigurationNames().contains(key), key + " is not listed");
        admin.brokers().updateDynamicConfiguration(key, "acme/shop");
        Checks.same("acme/shop", admin.brokers().getAllDynamicConfigurations().get(key));
        admin.brokers().deleteDynamicConfiguration(key);
        Checks.expect(!admin.brokers().getAllDynamicConfigurations().containsKey(key), key + " is still there");
        Checks.refused(PulsarAdminException.class, () -> admin.brokers().updateDynamicConfiguration("nosuch", "1"));
    }
}
