import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.PulsarClientException;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.schema.GenericRecord;
import org.apache.pulsar.common.schema.KeyValue;
import org.apache.pulsar.common.schema.KeyValueEncodingType;
import org.apache.pulsar.common.schema.SchemaInfo;
import org.apache.pulsar.common.schema.SchemaType;

/** Schemas: classes, generic records, pairs, evolution; and orders that Python wrote or will read. */
final class Schemas {
    private final Checks checks;
    private final PulsarClient client;

    Schemas(Checks checks) {
        this.checks = checks;
        client = checks.client;
    }

    /** As the Python side declares it. */
    public static final class Order {
        public String name;
        public Integer count;

        public Order() {}

        Order(String name, Integer count) {
            this.name = name;
            this.count = count;
        }
    }

    /** The next version: one field more. */
    public static final class BiggerOrder {
        public String name;
        public Integer count;
        public String note;
    }

    void run() {
        checks.check("avro", () -> roundTrip(Schema.AVRO(Order.class), "avro"));
        checks.check("json", () -> roundTrip(Schema.JSON(Order.class), "json"));
        checks.check("auto_consume", this::autoConsume);
        checks.check("auto_produce", this::autoProduce);
        checks.check("key_value", this::keyValue);
        checks.check("primitives", this::primitives);
        checks.check("evolution", this::evolution);
        checks.check("schemas_by_admin", this::byAdmin);
        checks.check("from_python_avro", () -> fromPython(Schema.AVRO(Order.class), "avro"));
        checks.check("from_python_json", () -> fromPython(Schema.JSON(Order.class), "json"));
        checks.check("from_python_generic", this::fromPythonGeneric);
        checks.check("from_python_bytes", this::fromPythonBytes);
        checks.check("for_python", this::forPython);
    }

    private <T> Consumer<T> open(Schema<T> schema, String topic) throws Exception {
        return client.newConsumer(schema).topic(topic).subscriptionName("java")
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe();
    }

    private void write(Schema<Order> schema, String topic, int count) throws Exception {
        try (Producer<Order> producer = client.newProducer(schema).topic(topic).create()) {
            for (int number = 0; number < count; number++) {
                producer.send(new Order("java-" + number, number));
            }
        }
    }

    private void roundTrip(Schema<Order> schema, String kind) throws Exception {
        String topic = Checks.topic("order-" + kind);
        write(schema, topic, 3);
        try (Consumer<Order> consumer = open(schema, topic)) {
            for (int number = 0; number < 3; number++) {
                Order order = Checks.receive(consumer).getValue();
                Checks.same("java-" + number, order.name);
                Checks.same(number, order.count);
            }
        }
    }

    private void autoConsume() throws Exception {
        for (String kind : List.of("avro", "json")) {
            try (Consumer<GenericRecord> consumer = client.newConsumer(Schema.AUTO_CONSUME())
                    .topic(Checks.topic("order-" + kind)).subscriptionName("auto")
                    .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe()) {
                GenericRecord record = Checks.receive(consumer).getValue();
                Checks.same("java-0", record.getField("name"));
                Checks.same(0, ((Number) record.getField("count")).intValue());
                Checks.same(kind.toUpperCase(), record.getSchemaType().toString());
            }
        }
    }

    private void autoProduce() throws Exception {
        String topic = Checks.topic("order-avro");
        try (Producer<byte[]> producer = client.newProducer(Schema.AUTO_PRODUCE_BYTES()).topic(topic).create()) {
            producer.send(Schema.AVRO(Order.class).encode(new Order("bytes", 9)));
            Checks.refused(Exception.class, () -> producer.send("no order".getBytes()));
        }
    }

    private void keyValue() throws Exception {
        for (KeyValueEncodingType encoding : KeyValueEncodingType.values()) {
            String topic = Checks.topic("pair-" + encoding);
            Schema<KeyValue<String, Order>> schema =
                    Schema.KeyValue(Schema.STRING, Schema.AVRO(Order.class), encoding);
            try (Producer<KeyValue<String, Order>> producer = client.newProducer(schema).topic(topic).create()) {
                producer.send(new KeyValue<>("k", new Order("pair", 1)));
            }
            try (Consumer<KeyValue<String, Order>> consumer = open(schema, topic)) {
                KeyValue<String, Order> pair = Checks.receive(consumer).getValue();
                Checks.same("k", pair.getKey());
                Checks.same("pair", pair.getValue().name);
            }
        }
    }

    private void primitives() throws Exception {
        primitive(Schema.STRING, "grüße");
        primitive(Schema.BOOL, true);
        primitive(Schema.INT8, (byte) -7);
        primitive(Schema.INT16, (short) -700);
        primitive(Schema.INT32, -70_000);
        primitive(Schema.INT64, -7_000_000_000L);
        primitive(Schema.FLOAT, 0.5f);
        primitive(Schema.DOUBLE, 0.25);
        primitive(Schema.INSTANT, java.time.Instant.ofEpochSecond(12345, 678));
        primitive(Schema.LOCAL_DATE, java.time.LocalDate.of(2024, 2, 29));
    }

    private <T> void primitive(Schema<T> schema, T value) throws Exception {
        String topic = Checks.topic("primitive-" + schema.getSchemaInfo().getType());
        try (Producer<T> producer = client.newProducer(schema).topic(topic).create()) {
            producer.send(value);
        }
        try (Consumer<T> consumer = open(schema, topic)) {
            Checks.same(value, Checks.receive(consumer).getValue());
        }
    }

    private void evolution() throws Exception {
        String topic = Checks.topic("evolution");
        write(Schema.AVRO(Order.class), topic, 1);
        try (Producer<BiggerOrder> producer = client.newProducer(Schema.AVRO(BiggerOrder.class)).topic(topic).create()) {
            BiggerOrder order = new BiggerOrder();
            order.name = "bigger";
            order.note = "more";
            producer.send(order);
        }
        try (Consumer<BiggerOrder> consumer = open(Schema.AVRO(BiggerOrder.class), topic)) {
            Checks.expect(Checks.receive(consumer).getValue().note == null, "a note where there was none");
            Checks.same("more", Checks.receive(consumer).getValue().note);
        }
        Checks.refused(PulsarClientException.IncompatibleSchemaException.class,
                () -> client.newProducer(Schema.STRING).topic(topic).create());
        Checks.same(2, checks.admin.schemas().getAllSchemas(topic).size());
    }

    private void byAdmin() throws Exception {
        String topic = Checks.topic("by-admin");
        SchemaInfo info = Schema.JSON(Order.class).getSchemaInfo();
        Checks.same(true, checks.admin.schemas().testCompatibility(topic, info).isCompatibility());
        checks.admin.schemas().createSchema(topic, info);
        Checks.same(SchemaType.JSON, checks.admin.schemas().getSchemaInfo(topic).getType());
        Checks.same(info.getSchemaDefinition(), checks.admin.schemas().getSchemaInfo(topic).getSchemaDefinition());
        Checks.same(0L, checks.admin.schemas().getSchemaInfoWithVersion(topic).getVersion());
        Checks.same(0L, checks.admin.schemas().getVersionBySchema(topic, info));
        checks.admin.schemas().deleteSchema(topic);
        Checks.refused(Exception.class, () -> checks.admin.schemas().getSchemaInfo(topic));
    }

    // -- with Python --------------------------------------------------------------------------------

    private void fromPython(Schema<Order> schema, String kind) throws Exception {
        try (Consumer<Order> consumer = open(schema, Checks.NAMESPACE + "python-" + kind)) {
            for (int number = 0; number < 3; number++) {
                Order order = Checks.receive(consumer).getValue();
                Checks.same("py-" + number, order.name);
                Checks.same(number, order.count);
            }
        }
    }

    private void fromPythonGeneric() throws Exception {
        for (String kind : List.of("avro", "json")) {
            try (Consumer<GenericRecord> consumer = client.newConsumer(Schema.AUTO_CONSUME())
                    .topic(Checks.NAMESPACE + "python-" + kind).subscriptionName("auto")
                    .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe()) {
                Checks.same("py-0", Checks.receive(consumer).getValue().getField("name").toString());
            }
        }
    }

    private void fromPythonBytes() throws Exception {
        try (Consumer<byte[]> consumer = checks.subscribe(Checks.NAMESPACE + "python-bytes", "java")) {
            for (int number = 0; number < 20; number++) {
                Message<byte[]> message = Checks.receive(consumer);
                Checks.same("py-" + number, new String(message.getData()));
                Checks.same("k" + number % 4, message.getKey());
                Checks.same(Map.of("number", String.valueOf(number)), message.getProperties());
            }
            Message<byte[]> large = Checks.receive(consumer);
            Checks.same(300_000, large.size());
            consumer.acknowledgeCumulative(large);
        }
    }

    private void forPython() throws Exception {
        write(Schema.AVRO(Order.class), Checks.topic("for-python-avro"), 3);
        write(Schema.JSON(Order.class), Checks.topic("for-python-json"), 3);
        try (Producer<byte[]> producer = client.newProducer().topic(Checks.topic("for-python-bytes"))
                .batchingMaxPublishDelay(1, TimeUnit.SECONDS).create()) {
            for (int number = 0; number < 20; number++) {
                producer.newMessage().key("k" + number % 4).property("number", String.valueOf(number))
                        .value(("java-" + number).getBytes()).sendAsync();
            }
            producer.flush();
        }
        try (Producer<byte[]> producer = client.newProducer().topic(Checks.topic("for-python-bytes"))
                .enableBatching(false).enableChunking(true).chunkMaxMessageSize(100_000).create()) {
            producer.send(new byte[300_000]);
        }
    }
}
