import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.DeadLetterPolicy;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.SubscriptionType;

/** Messages that come again: negative acks, timeouts, dead letters, retries, delays. */
final class Redelivery {
    private final Checks checks;
    private final PulsarClient client;

    Redelivery(Checks checks) {
        this.checks = checks;
        client = checks.client;
    }

    void run() {
        checks.check("negative_ack", this::negativeAck);
        checks.check("ack_timeout", this::ackTimeout);
        checks.check("dead_letter", this::deadLetter);
        checks.check("retry_letter", this::retryLetter);
        checks.check("delayed", this::delayed);
    }

    private void negativeAck() throws Exception {
        String topic = Checks.topic("negative");
        checks.sendBatch(topic, 0, 5);
        try (Consumer<byte[]> consumer = client.newConsumer().topic(topic).subscriptionName("s")
                .subscriptionType(SubscriptionType.Shared).negativeAckRedeliveryDelay(100, TimeUnit.MILLISECONDS)
                .enableBatchIndexAcknowledgment(true).isAckReceiptEnabled(true)
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe()) {
            for (int number = 0; number < 5; number++) {
                Message<byte[]> message = Checks.receive(consumer);
                if (number == 2) {
                    consumer.negativeAcknowledge(message);
                } else {
                    consumer.acknowledge(message);
                }
            }
            Message<byte[]> again = Checks.receive(consumer);
            Checks.same("m2", new String(again.getData()));
            Checks.same(1, again.getRedeliveryCount());
            consumer.acknowledge(again);
        }
    }

    private void ackTimeout() throws Exception {
        String topic = Checks.topic("timeout");
        checks.send(topic, 0, 1);
        try (Consumer<byte[]> consumer = client.newConsumer().topic(topic).subscriptionName("s")
                .subscriptionType(SubscriptionType.Shared).ackTimeout(1, TimeUnit.SECONDS)
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe()) {
            Checks.receive(consumer);
            Checks.expect(Checks.receive(consumer).getRedeliveryCount() >= 1, "not counted");
        }
    }

    private void deadLetter() throws Exception {
        String topic = Checks.topic("poison");
        checks.send(topic, 0, 2);
        try (Consumer<byte[]> consumer = client.newConsumer().topic(topic).subscriptionName("s")
                .subscriptionType(SubscriptionType.Shared).negativeAckRedeliveryDelay(10, TimeUnit.MILLISECONDS)
                .deadLetterPolicy(DeadLetterPolicy.builder().maxRedeliverCount(2).initialSubscriptionName("graves")
                        .build())
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe()) {
            for (int delivery = 0; delivery < 4; delivery++) {
                Message<byte[]> message = Checks.receive(consumer);
                if (new String(message.getData()).equals("m0")) {
                    consumer.negativeAcknowledge(message);
                } else {
                    consumer.acknowledge(message);
                }
            }
            // The client sends it there when it comes once more.
            consumer.receive(2, TimeUnit.SECONDS);
            try (Consumer<byte[]> dead = checks.subscribe(topic + "-s-DLQ", "graves")) {
                Message<byte[]> message = Checks.receive(dead);
                Checks.same("m0", new String(message.getData()));
                Checks.same(topic, message.getProperty("REAL_TOPIC"));
            }
        }
    }

    private void retryLetter() throws Exception {
        String topic = Checks.topic("retry");
        checks.send(topic, 0, 1);
        try (Consumer<byte[]> consumer = client.newConsumer().topic(topic).subscriptionName("s").enableRetry(true)
                .subscriptionType(SubscriptionType.Shared)
                .deadLetterPolicy(DeadLetterPolicy.builder().maxRedeliverCount(2).build())
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe()) {
            for (int times = 0; times < 3; times++) {
                Message<byte[]> message = Checks.receive(consumer);
                Checks.same(times == 0 ? null + "" : times + "", message.getProperty("RECONSUMETIMES") + "");
                consumer.reconsumeLater(message, 100, TimeUnit.MILLISECONDS);
            }
            try (Consumer<byte[]> dead = checks.subscribe(topic + "-s-DLQ", "graves")) {
                Checks.same(List.of("m0"), Checks.receive(dead, 1));
            }
        }
    }

    private void delayed() throws Exception {
        String topic = Checks.topic("delayed");
        try (Consumer<byte[]> consumer = client.newConsumer().topic(topic).subscriptionName("s")
                .subscriptionType(SubscriptionType.Shared).subscribe();
                Producer<byte[]> producer = client.newProducer().topic(topic).create()) {
            long due = System.currentTimeMillis() + 1500;
            producer.newMessage().deliverAt(due).value("m1".getBytes()).send();
            producer.newMessage().value("m0".getBytes()).send();
            Checks.same(Checks.numbered(0, 2), Checks.receive(consumer, 2));
            Checks.expect(System.currentTimeMillis() >= due, "delivered before its time");
        }
    }
}
