import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.Reader;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;

/** Seeks, readers and ids: every position is exact, inside a batch too. */
final class Positions {
    private final Checks checks;
    private final PulsarClient client;

    Positions(Checks checks) {
        this.checks = checks;
        client = checks.client;
    }

    void run() {
        checks.check("seek_by_id", this::seekById);
        checks.check("seek_inside_a_batch", this::seekInsideABatch);
        checks.check("seek_by_time", this::seekByTime);
        checks.check("seek_to_the_ends", this::seekToTheEnds);
        checks.check("reader", this::reader);
        checks.check("reader_inside_a_batch", this::readerInsideABatch);
        checks.check("ids_survive_bytes", this::idsSurviveBytes);
        checks.check("last_message_id", this::lastMessageId);
        checks.check("id_by_index", this::idByIndex);
    }

    private List<MessageId> ids(String topic, int count) throws Exception {
        List<MessageId> ids = new ArrayList<>();
        try (Reader<byte[]> reader = client.newReader().topic(topic).startMessageId(MessageId.earliest).create()) {
            for (int number = 0; number < count; number++) {
                ids.add(reader.readNext(Checks.TIMEOUT_S, TimeUnit.SECONDS).getMessageId());
            }
        }
        return ids;
    }

    private void seekById() throws Exception {
        String topic = Checks.topic("seek");
        checks.send(topic, 0, 10);
        try (Consumer<byte[]> consumer = checks.subscribe(topic, "s")) {
            Checks.receive(consumer, 10);
            consumer.seek(ids(topic, 10).get(4));
            Checks.same(Checks.numbered(5, 10), Checks.receive(consumer, 5));
        }
        try (Consumer<byte[]> consumer = client.newConsumer().topic(topic).subscriptionName("inclusive")
                .startMessageIdInclusive().subscribe()) {
            consumer.seek(ids(topic, 10).get(4));
            Checks.same(Checks.numbered(4, 10), Checks.receive(consumer, 6));
        }
    }

    private void seekInsideABatch() throws Exception {
        String topic = Checks.topic("seek-batch");
        checks.sendBatch(topic, 0, 10);
        checks.sendBatch(topic, 10, 20);
        // Acks that the client still groups when it seeks outlive the seek there, and hide messages.
        try (Consumer<byte[]> consumer = client.newConsumer().topic(topic).subscriptionName("s")
                .acknowledgmentGroupTime(0, TimeUnit.MILLISECONDS)
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe()) {
            Checks.receive(consumer, 20);
            consumer.seek(ids(topic, 20).get(13));
            Checks.same(Checks.numbered(14, 20), Checks.receive(consumer, 6));
            consumer.seek(ids(topic, 20).get(9));
            Checks.same(Checks.numbered(10, 20), Checks.receive(consumer, 10));
        }
    }

    private void seekByTime() throws Exception {
        String topic = Checks.topic("seek-time");
        checks.send(topic, 0, 5);
        Thread.sleep(50);
        long between = System.currentTimeMillis();
        Thread.sleep(50);
        checks.send(topic, 5, 10);
        try (Consumer<byte[]> consumer = checks.subscribe(topic, "s")) {
            Checks.receive(consumer, 10);
            consumer.seek(between);
            Checks.same(Checks.numbered(5, 10), Checks.receive(consumer, 5));
        }
    }

    private void seekToTheEnds() throws Exception {
        String topic = Checks.topic("seek-ends");
        checks.send(topic, 0, 5);
        try (Consumer<byte[]> consumer = checks.subscribe(topic, "s")) {
            consumer.seek(MessageId.latest);
            checks.send(topic, 5, 6);
            Checks.same(Checks.numbered(5, 6), Checks.receive(consumer, 1));
            consumer.seek(MessageId.earliest);
            Checks.same(Checks.numbered(0, 6), Checks.receive(consumer, 6));
        }
    }

    private void reader() throws Exception {
        String topic = Checks.topic("reader");
        checks.send(topic, 0, 5);
        try (Reader<byte[]> reader = client.newReader().topic(topic).startMessageId(MessageId.earliest).create()) {
            for (int number = 0; number < 5; number++) {
                Checks.expect(reader.hasMessageAvailable(), "at its end with " + number);
                Checks.same("m" + number, new String(reader.readNext().getData()));
            }
            Checks.expect(!reader.hasMessageAvailable(), "more than there is");
            checks.send(topic, 5, 6);
            Checks.same("m5", new String(reader.readNext(Checks.TIMEOUT_S, TimeUnit.SECONDS).getData()));
        }
        try (Reader<byte[]> reader = client.newReader().topic(topic).startMessageId(MessageId.latest)
                .startMessageIdInclusive().create()) {
            Checks.expect(reader.hasMessageAvailable(), "the last message is not seen");
            Checks.same("m5", new String(reader.readNext(Checks.TIMEOUT_S, TimeUnit.SECONDS).getData()));
        }
        try (Reader<byte[]> reader = client.newReader().topic(topic)
                .startMessageFromRollbackDuration(1, TimeUnit.HOURS).create()) {
            Checks.same("m0", new String(reader.readNext(Checks.TIMEOUT_S, TimeUnit.SECONDS).getData()));
        }
    }

    private void readerInsideABatch() throws Exception {
        String topic = Checks.topic("reader-batch");
        checks.sendBatch(topic, 0, 10);
        MessageId third = ids(topic, 10).get(3);
        try (Reader<byte[]> reader = client.newReader().topic(topic).startMessageId(third).create()) {
            Checks.same("m4", new String(reader.readNext(Checks.TIMEOUT_S, TimeUnit.SECONDS).getData()));
        }
        try (Reader<byte[]> reader =
                client.newReader().topic(topic).startMessageId(third).startMessageIdInclusive().create()) {
            Checks.same("m3", new String(reader.readNext(Checks.TIMEOUT_S, TimeUnit.SECONDS).getData()));
        }
    }

    private void idsSurviveBytes() throws Exception {
        String topic = Checks.topic("ids");
        checks.sendBatch(topic, 0, 5);
        for (MessageId id : ids(topic, 5)) {
            Checks.same(id, MessageId.fromByteArrayWithTopic(id.toByteArray(), topic));
        }
    }

    private void lastMessageId() throws Exception {
        String topic = Checks.topic("last");
        checks.sendBatch(topic, 0, 5);
        List<MessageId> ids = ids(topic, 5);
        try (Consumer<byte[]> consumer = checks.subscribe(topic, "s")) {
            Checks.same(0, ids.get(4).compareTo(consumer.getLastMessageIds().get(0)));
        }
        // Of a batch the admin interface names the entry.
        Checks.same(true, ids.get(4).toString().startsWith(
                checks.admin.topics().getLastMessageId(topic).toString().replaceAll("(:-1)+$", "")));
    }

    private void idByIndex() throws Exception {
        String topic = Checks.topic("by-index");
        checks.send(topic, 0, 5);
        List<MessageId> ids = ids(topic, 5);
        for (int index = 0; index < 5; index++) {
            Checks.same(ids.get(index), checks.admin.topics().getMessageIdByIndex(topic, index));
        }
        try (Reader<byte[]> reader = client.newReader().topic(topic).startMessageId(MessageId.earliest).create()) {
            for (int index = 0; index < 5; index++) {
                Message<byte[]> message = reader.readNext(Checks.TIMEOUT_S, TimeUnit.SECONDS);
                Checks.same((long) index, message.getIndex().get());
            }
        }
    }
}
