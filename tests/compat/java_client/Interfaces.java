import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.stream.Collectors;
import org.apache.pulsar.client.admin.PulsarAdmin;
import org.apache.pulsar.client.api.PulsarClient;

/**
 * The calls of the official Java interfaces, found by reflection, each tried once: a line each, the call, a tab, and
 * what came of it. The tests compare the lines of two brokers.
 *
 * <pre>java -cp … Interfaces pulsar://… http://… [part of a call's name …]</pre>
 */
public final class Interfaces {
    private static final int LIMIT_S = 20;

    private final List<String> wanted;
    private final ExecutorService calls = Executors.newCachedThreadPool(work -> {
        Thread thread = new Thread(work);
        thread.setDaemon(true);
        return thread;
    });

    private Interfaces(List<String> wanted) {
        this.wanted = wanted;
    }

    public static void main(String[] arguments) throws Exception {
        Interfaces report = new Interfaces(Arrays.asList(arguments).subList(2, arguments.length));
        PulsarClient client = PulsarClient.builder().serviceUrl(arguments[0])
                .operationTimeout(LIMIT_S / 2, TimeUnit.SECONDS).build();
        PulsarAdmin admin = PulsarAdmin.builder().serviceHttpUrl(arguments[1]).build();
        try {
            new ClientCalls(arguments[0], client, report).run();
            new AdminCalls(admin, client, report).run();
        } catch (Exception failure) {
            failure.printStackTrace();
            System.exit(1);
        }
        System.out.flush();
        System.exit(0); // threads that the libraries leave behind are not waited for
    }

    boolean wants(String title) {
        return wanted.isEmpty() || wanted.stream().anyMatch(title::contains);
    }

    void say(String title, String outcome) {
        System.out.println(title + "\t" + outcome.replaceAll("\\s+", " "));
        System.out.flush();
    }

    /** Makes a call that may hang, and says what came of it. */
    void within(String title, Callable<String> call) throws Exception {
        Future<String> outcome = calls.submit(call);
        try {
            say(title, outcome.get(LIMIT_S, TimeUnit.SECONDS));
        } catch (TimeoutException late) {
            outcome.cancel(true);
            say(title, "no answer within " + LIMIT_S + " s");
        } catch (ExecutionException failure) {
            Throwable cause = failure.getCause();
            while (cause.getCause() != null
                    && (cause instanceof java.lang.reflect.InvocationTargetException || cause instanceof ExecutionException)) {
                cause = cause.getCause();
            }
            say(title, cause.getClass().getSimpleName());
        }
    }

    static String signature(Method method) {
        return Arrays.stream(method.getParameterTypes()).map(Class::getSimpleName)
                .collect(Collectors.joining(",", method.getName() + "(", ")"));
    }

    /** A value as far as two brokers should agree on it: plain ones as they are, others by their shape. */
    static String shown(Object value) {
        if (value == null || value instanceof Boolean || value instanceof Enum) {
            return String.valueOf(value);
        } else if (value instanceof Number) {
            return "number";
        } else if (value instanceof CharSequence) {
            return value.toString().isEmpty() ? "empty text" : "text";
        } else if (value instanceof Map) {
            return ((Map<?, ?>) value).isEmpty() ? "empty map" : "map";
        } else if (value instanceof Collection) {
            return ((Collection<?>) value).stream().map(Interfaces::shown).distinct().sorted()
                    .collect(Collectors.joining(", ", "[", "]"));
        }
        String type = value.getClass().getSimpleName();
        boolean isPolicy = value.getClass().getPackageName().endsWith("policies.data")
                || value.getClass().getPackageName().endsWith("policies.data.impl");
        if (isPolicy && !type.contains("Stats") && !type.equals("Policies")) {
            return type + " " + value.toString().replaceAll("@[0-9a-f]+", "").replaceAll("127\\.0\\.0\\.1:[0-9]+", "HOST");
        }
        return type;
    }
}
