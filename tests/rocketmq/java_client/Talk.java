import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientConfigurationBuilder;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.StaticSessionCredentialsProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.FilterExpressionType;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.ProducerBuilder;
import org.apache.rocketmq.client.apis.producer.SendReceipt;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;

/**
 * What the tests let RocketMQ's official Java client do: Talk ENDPOINT COMMAND TOPIC name=value…
 *
 * <p>The commands are those of the programs beside it: send, receive, push, transact, recall. Every line of
 * the output is a JSON object, but for the last, "end".
 */
public final class Talk {
  private static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();
  private final Map<String, String> options = new TreeMap<>();
  private final ClientConfiguration configuration;
  private final String topic;

  private Talk(String[] arguments) {
    topic = arguments[2];
    for (int at = 3; at < arguments.length; at++) {
      String[] parts = arguments[at].split("=", 2);
      options.put(parts[0], parts[1]);
    }
    ClientConfigurationBuilder builder =
        ClientConfiguration.newBuilder()
            .setEndpoints(arguments[0])
            .enableSsl(has("tls"))
            .setRequestTimeout(Duration.ofSeconds(15));
    if (has("key")) {
      builder.setCredentialProvider(
          new StaticSessionCredentialsProvider(option("key", ""), option("secret", "")));
    }
    configuration = builder.build();
  }

  public static void main(String[] arguments) {
    try {
      Talk talk = new Talk(arguments);
      switch (arguments[1]) {
        case "send" -> talk.send();
        case "receive" -> talk.receive();
        case "push" -> talk.push();
        case "transact" -> talk.transact();
        case "recall" -> talk.recall();
        default -> throw new IllegalArgumentException(arguments[1]);
      }
      say("end");
      Runtime.getRuntime().halt(0); // closing a push consumer waits for its poll
    } catch (Throwable error) {
      error.printStackTrace();
      Runtime.getRuntime().halt(1);
    }
  }

  private boolean has(String name) {
    return options.containsKey(name);
  }

  private String option(String name, String other) {
    return options.getOrDefault(name, other);
  }

  private int number(String name, int other) {
    return Integer.parseInt(option(name, Integer.toString(other)));
  }

  private ProducerBuilder producer() {
    return PROVIDER.newProducerBuilder().setClientConfiguration(configuration).setTopics(topic);
  }

  private Message message(int number) {
    MessageBuilder builder =
        PROVIDER
            .newMessageBuilder()
            .setTopic(topic)
            .setBody((option("body", "m") + number).getBytes(StandardCharsets.UTF_8));
    if (has("tag")) {
      builder.setTag(option("tag", ""));
    }
    if (has("keys")) {
      builder.setKeys(option("keys", "").split(","));
    }
    if (has("group")) {
      builder.setMessageGroup(option("group", ""));
    }
    if (has("delay_ms")) {
      builder.setDeliveryTimestamp(System.currentTimeMillis() + number("delay_ms", 0));
    }
    if (has("property")) {
      String[] parts = option("property", "").split(":", 2);
      builder.addProperty(parts[0], parts[1]);
    }
    return builder.build();
  }

  private void send() throws Exception {
    try (Producer producer = producer().build()) {
      for (int number = 0; number < number("count", 1); number++) {
        SendReceipt receipt = producer.send(message(number));
        Map<String, String> line = new TreeMap<>();
        line.put("id", quoted(receipt.getMessageId().toString()));
        line.put("recall", quoted(receipt.getRecallHandle()));
        say(object(line));
      }
    }
  }

  private void recall() throws Exception {
    try (Producer producer = producer().build()) {
      Map<String, String> line = new TreeMap<>();
      line.put("id", quoted(producer.recallMessage(topic, option("handle", "")).getMessageId().toString()));
      say(object(line));
    }
  }

  private Map<String, FilterExpression> filters() {
    FilterExpressionType kind = has("sql") ? FilterExpressionType.SQL92 : FilterExpressionType.TAG;
    return Map.of(topic, new FilterExpression(option("filter", "*"), kind));
  }

  private void receive() throws Exception {
    int count = number("count", 1);
    SimpleConsumer consumer =
        PROVIDER
            .newSimpleConsumerBuilder()
            .setClientConfiguration(configuration)
            .setConsumerGroup(option("consumers", "g"))
            .setAwaitDuration(Duration.ofSeconds(5))
            .setSubscriptionExpressions(filters())
            .build();
    List<MessageView> taken = new ArrayList<>();
    for (long end = System.nanoTime() + 30_000_000_000L; taken.size() < count && System.nanoTime() < end; ) {
      for (MessageView one : consumer.receive(count, Duration.ofSeconds(number("invisible_s", 60)))) {
        taken.add(one);
        say(view(one));
        if (has("change_s")) {
          consumer.changeInvisibleDuration(one, Duration.ofSeconds(number("change_s", 0)));
        } else if (!has("keep")) {
          consumer.ack(one);
        }
      }
    }
    consumer.close();
  }

  private void push() throws Exception {
    String failing = option("fail", "");
    PROVIDER
        .newPushConsumerBuilder()
        .setClientConfiguration(configuration)
        .setConsumerGroup(option("consumers", "g"))
        .setSubscriptionExpressions(filters())
        .setMessageListener(
            one -> {
              say(view(one));
              boolean fails = text(one).equals(failing) && one.getDeliveryAttempt() <= number("times", 1);
              return fails ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
            })
        .build();
    System.in.read(); // until the test has seen enough
  }

  private void transact() throws Exception {
    String end = option("end", "commit");
    TransactionResolution answer =
        end.equals("check-commit") ? TransactionResolution.COMMIT : TransactionResolution.ROLLBACK;
    Producer producer =
        producer()
            .setTransactionChecker(
                one -> {
                  say(view(one));
                  return answer;
                })
            .build();
    Transaction transaction = producer.beginTransaction();
    producer.send(message(0), transaction);
    switch (end) {
      case "commit" -> transaction.commit();
      case "rollback" -> transaction.rollback();
      default -> System.in.read(); // the broker asks
    }
    producer.close();
  }

  private static String text(MessageView one) {
    return StandardCharsets.UTF_8.decode(one.getBody()).toString();
  }

  private static String view(MessageView one) {
    Map<String, String> line = new TreeMap<>();
    line.put("id", quoted(one.getMessageId().toString()));
    line.put("body", quoted(text(one)));
    line.put("tag", quoted(one.getTag().orElse("")));
    line.put("keys", list(one.getKeys()));
    line.put("group", quoted(one.getMessageGroup().orElse("")));
    line.put("attempt", Integer.toString(one.getDeliveryAttempt()));
    Map<String, String> properties = new TreeMap<>();
    one.getProperties().forEach((name, value) -> properties.put(name, quoted(value)));
    line.put("properties", object(properties));
    return object(line);
  }

  private static String object(Map<String, String> fields) {
    return fields.entrySet().stream()
        .map(field -> quoted(field.getKey()) + ":" + field.getValue())
        .collect(Collectors.joining(",", "{", "}"));
  }

  private static String list(Collection<String> values) {
    return values.stream().map(Talk::quoted).collect(Collectors.joining(",", "[", "]"));
  }

  private static String quoted(String value) {
    return value == null ? "\"\"" : '"' + value.replace("\\", "\\\\").replace("\"", "\\\"") + '"';
  }

  private static synchronized void say(String line) {
    System.out.println(line);
    System.out.flush();
  }
}
