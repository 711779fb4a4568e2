import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.Type;
import java.lang.reflect.TypeVariable;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.ConsumerBuilder;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.ProducerBuilder;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.Reader;
import org.apache.pulsar.client.api.ReaderBuilder;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.TableView;
import org.apache.pulsar.client.api.TableViewBuilder;

/** Every option of the client's builders, and every method of what they build, each on a topic of its own. */
final class ClientCalls {
    private static final int WAIT_S = 5;
    private static final String PREFIX = "persistent://public/default/calls" + Long.toString(System.currentTimeMillis(), 36);

    /** They take what only another client's parts give, or wait for a program that is not there. */
    private static final Set<String> LEFT_OUT = Set.of("toString", "equals", "hashCode", "clone", "loadConf", "create",
            "createAsync", "subscribe", "subscribeAsync", "topicsPattern", "topics");

    private final String url;
    private final PulsarClient client;
    private final Interfaces report;
    private int number;

    private interface Use {
        String of(Object built, String topic) throws Exception;
    }

    ClientCalls(String url, PulsarClient client, Interfaces report) {
        this.url = url;
        this.client = client;
        this.report = report;
    }

    void run() throws Exception {
        options(ProducerBuilder.class, (builder, topic) -> {
            try (Producer<?> producer = ((ProducerBuilder<byte[]>) builder).topic(topic).create()) {
                return "sent " + Interfaces.shown(((Producer<byte[]>) producer).send("m".getBytes()));
            }
        });
        options(ConsumerBuilder.class, (builder, topic) -> {
            try (Consumer<?> consumer = ((ConsumerBuilder<byte[]>) builder).topic(topic).subscriptionName("s")
                    .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe()) {
                return got(consumer.receive(WAIT_S, TimeUnit.SECONDS));
            }
        });
        options(ReaderBuilder.class, (builder, topic) -> {
            try (Reader<?> reader = ((ReaderBuilder<byte[]>) builder).topic(topic).create()) {
                return got(reader.readNext(WAIT_S, TimeUnit.SECONDS));
            }
        });
        options(TableViewBuilder.class, (builder, topic) -> {
            try (TableView<?> table = ((TableViewBuilder<byte[]>) builder).topic(topic).create()) {
                return "keys " + table.size();
            }
        });
        for (Class<?> type : List.of(Producer.class, Consumer.class, Reader.class, TableView.class, PulsarClient.class)) {
            methods(type);
        }
    }

    private static String got(Message<?> message) {
        return message == null ? "nothing" : "got " + new String(message.getData());
    }

    private Object builder(Class<?> type) {
        if (type == ProducerBuilder.class) {
            return client.newProducer();
        } else if (type == ConsumerBuilder.class) {
            return client.newConsumer();
        } else if (type == ReaderBuilder.class) {
            return client.newReader().startMessageId(MessageId.earliest);
        }
        return client.newTableView();
    }

    private void options(Class<?> type, Use use) throws Exception {
        for (Method method : sorted(type)) {
            String title = type.getSimpleName() + "." + Interfaces.signature(method);
            if (LEFT_OUT.contains(method.getName()) || !report.wants(title)) {
                continue;
            }
            String topic = filled();
            Object[] arguments = arguments(method, topic, null);
            if (arguments == null) {
                report.say(title, "not called");
                continue;
            }
            report.within(title, () -> {
                Object built = builder(type);
                method.invoke(built, arguments);
                return use.of(built, topic);
            });
        }
    }

    private void methods(Class<?> type) throws Exception {
        for (Method method : sorted(type)) {
            String title = type.getSimpleName() + "." + Interfaces.signature(method);
            if (LEFT_OUT.contains(method.getName()) || !report.wants(title)) {
                continue;
            }
            String topic = filled();
            report.within(title, () -> {
                Object on = opened(type, topic);
                Message<?> received = on instanceof Consumer ? ((Consumer<?>) on).receive(WAIT_S, TimeUnit.SECONDS) : null;
                Object[] arguments = arguments(method, topic, received);
                if (arguments == null) {
                    return "not called";
                }
                Object result = method.invoke(on, arguments);
                if (result instanceof CompletableFuture) {
                    result = ((CompletableFuture<?>) result).get(WAIT_S, TimeUnit.SECONDS);
                }
                return Interfaces.shown(result);
            });
        }
    }

    private Object opened(Class<?> type, String topic) throws Exception {
        if (type == Producer.class) {
            return client.newProducer().topic(topic).create();
        } else if (type == Consumer.class) {
            return client.newConsumer().topic(topic).subscriptionName("s").enableRetry(true)
                    .subscriptionType(org.apache.pulsar.client.api.SubscriptionType.Shared)
                    .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe();
        } else if (type == Reader.class) {
            return client.newReader().topic(topic).startMessageId(MessageId.earliest).create();
        } else if (type == TableView.class) {
            return client.newTableView().topic(topic).create();
        }
        return PulsarClient.builder().serviceUrl(url).build();
    }

    private String filled() throws Exception {
        String topic = PREFIX + "-" + number++;
        try (Producer<byte[]> producer = client.newProducer().topic(topic).enableBatching(false).create()) {
            for (int each = 0; each < 3; each++) {
                producer.newMessage().key("k" + each).value(("m" + each).getBytes()).send();
            }
        }
        return topic;
    }

    /** Null: there is no plain value for one of them. */
    private Object[] arguments(Method method, String topic, Message<?> received) throws Exception {
        Object[] arguments = new Object[method.getParameterCount()];
        for (int index = 0; index < arguments.length; index++) {
            Type type = method.getGenericParameterTypes()[index];
            Class<?> plain = method.getParameterTypes()[index];
            if (plain == String.class) {
                arguments[index] = text(method.getName(), topic);
            } else if (plain == String[].class) {
                arguments[index] = new String[] {topic};
            } else if (type instanceof TypeVariable) {
                arguments[index] = "m".getBytes();
            } else if (plain == Message.class && received != null) {
                arguments[index] = received;
            } else if (plain == MessageId.class && received != null) {
                arguments[index] = received.getMessageId();
            } else {
                arguments[index] = Arguments.of(type);
            }
            if (arguments[index] == Arguments.NONE) {
                return null;
            }
        }
        return arguments;
    }

    private String text(String method, String topic) {
        if (method.equals("updateServiceUrl")) {
            return url;
        }
        return method.toLowerCase().contains("topic") ? topic : "k0";
    }

    private static Method[] sorted(Class<?> type) {
        return Arrays.stream(type.getMethods()).filter(each -> !Modifier.isStatic(each.getModifiers()))
                .sorted(Comparator.comparing(Interfaces::signature)).toArray(Method[]::new);
    }
}
