import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import org.apache.pulsar.client.admin.BrokerStats;
import org.apache.pulsar.client.admin.Brokers;
import org.apache.pulsar.client.admin.Clusters;
import org.apache.pulsar.client.admin.Lookup;
import org.apache.pulsar.client.admin.Namespaces;
import org.apache.pulsar.client.admin.PulsarAdmin;
import org.apache.pulsar.client.admin.PulsarAdminException;
import org.apache.pulsar.client.admin.ResourceGroups;
import org.apache.pulsar.client.admin.ResourceQuotas;
import org.apache.pulsar.client.admin.Schemas;
import org.apache.pulsar.client.admin.Tenants;
import org.apache.pulsar.client.admin.TopicPolicies;
import org.apache.pulsar.client.admin.Topics;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.common.policies.data.TenantInfo;

/**
 * Every blocking method of the admin client's interfaces, called once for each kind of name: a plain topic, a
 * partitioned one, one that is not there. Each call has a namespace of its own, so that none depends on another.
 */
final class AdminCalls {
    /** Of this run alone: the broker may have seen another. */
    private static final String TENANT = "calls" + Long.toString(System.currentTimeMillis(), 36);
    private static final String WHOLE = "0x00000000_0xffffffff";

    /** They would end the broker, or go to a process that is another one. */
    private static final Set<String> LEFT_OUT = Set.of("shutDownBrokerGracefully", "backlogQuotaCheck", "healthcheck");

    private final PulsarAdmin admin;
    private final PulsarClient client;
    private final Interfaces report;
    private int number;

    AdminCalls(PulsarAdmin admin, PulsarClient client, Interfaces report) {
        this.admin = admin;
        this.client = client;
        this.report = report;
    }

    void run() throws Exception {
        admin.tenants().createTenant(TENANT, TenantInfo.builder().allowedClusters(Set.of("standalone")).build());
        for (String place : List.of("plain", "partitioned", "absent")) {
            all("topics", Topics.class, admin.topics(), place);
            all("topicPolicies", TopicPolicies.class, admin.topicPolicies(), place);
            all("schemas", Schemas.class, admin.schemas(), place);
            all("lookups", Lookup.class, admin.lookups(), place);
        }
        for (String place : List.of("plain", "absent")) {
            all("namespaces", Namespaces.class, admin.namespaces(), place);
            all("tenants", Tenants.class, admin.tenants(), place);
            all("resourceGroups", ResourceGroups.class, admin.resourcegroups(), place);
            all("resourceQuotas", ResourceQuotas.class, admin.resourceQuotas(), place);
            all("clusters", Clusters.class, admin.clusters(), place);
        }
        all("brokers", Brokers.class, admin.brokers(), "plain");
        all("brokerStats", BrokerStats.class, admin.brokerStats(), "plain");
    }

    private void all(String name, Class<?> type, Object on, String place) throws Exception {
        Method[] methods = type.getMethods();
        Arrays.sort(methods, Comparator.comparing(Interfaces::signature));
        for (Method method : methods) {
            if (Modifier.isStatic(method.getModifiers()) || LEFT_OUT.contains(method.getName())
                    || CompletableFuture.class.isAssignableFrom(method.getReturnType())) {
                continue;
            }
            call(name + "." + Interfaces.signature(method) + " " + place, method, on, place);
        }
    }

    private void call(String title, Method method, Object on, String place) throws Exception {
        if (!report.wants(title)) {
            number++;
            return;
        }
        Object[] arguments = new Object[method.getParameterCount()];
        String subject = subject(method, place);
        int texts = 0;
        for (int index = 0; index < arguments.length; index++) {
            boolean isText = method.getParameterTypes()[index] == String.class;
            arguments[index] = isText ? text(method, subject, texts++)
                    : Arguments.of(method.getGenericParameterTypes()[index]);
            if (arguments[index] == Arguments.NONE) {
                report.say(title, "not called: no plain " + method.getGenericParameterTypes()[index].getTypeName());
                return;
            }
        }
        report.within(title, () -> {
            try {
                return Interfaces.shown(method.invoke(on, arguments));
            } catch (InvocationTargetException failure) {
                return refusal(failure.getCause());
            }
        });
    }

    /** What the first text of a call names; made, with three messages and a subscription, unless it is to be absent. */
    private String subject(Method method, String place) throws Exception {
        number++;
        String namespace = TENANT + "/n" + number;
        String topic = "persistent://" + namespace + "/t";
        Class<?> type = method.getDeclaringClass();
        boolean isThere = !place.equals("absent");
        if (type == Tenants.class) {
            String tenant = "tenant" + number;
            if (isThere) {
                admin.tenants().createTenant(tenant, TenantInfo.builder().allowedClusters(Set.of("standalone")).build());
            }
            return tenant;
        } else if (type == Clusters.class || type == Brokers.class || type == BrokerStats.class) {
            return isThere && method.getName().startsWith("get") ? "standalone" : "cluster" + number;
        } else if (type == ResourceGroups.class) {
            String group = "group" + number;
            if (isThere && !method.getName().startsWith("create")) {
                admin.resourcegroups().createResourceGroup(group, (org.apache.pulsar.common.policies.data.ResourceGroup)
                        Arguments.of(org.apache.pulsar.common.policies.data.ResourceGroup.class));
            }
            return group;
        }
        boolean isOfNamespace = type == Namespaces.class || type == ResourceQuotas.class
                || Set.of("getList", "getPartitionedTopicList", "getListInBundle").contains(method.getName());
        if (isOfNamespace && !isThere) {
            return namespace;
        }
        if (!(isOfNamespace && method.getName().equals("createNamespace"))) {
            admin.namespaces().createNamespace(namespace, 1);
        }
        if (isOfNamespace) {
            boolean isEmpty = method.getName().startsWith("deleteNamespace") || method.getName().equals("createNamespace");
            if (!isEmpty) {
                admin.topics().createNonPartitionedTopic(topic);
                fill(topic);
            }
            return Set.of("getNamespaces", "getAntiAffinityNamespaces").contains(method.getName()) ? TENANT : namespace;
        }
        boolean makes = method.getName().startsWith("create") && method.getName().endsWith("Topic");
        if (isThere && !makes) {
            if (place.equals("partitioned")) {
                admin.topics().createPartitionedTopic(topic, 2);
            } else {
                admin.topics().createNonPartitionedTopic(topic);
            }
            fill(topic);
        }
        return topic;
    }

    private void fill(String topic) throws Exception {
        admin.topics().createSubscription(topic, "s", org.apache.pulsar.client.api.MessageId.earliest);
        try (Producer<byte[]> producer = client.newProducer().topic(topic).enableBatching(false).create()) {
            for (int each = 0; each < 4; each++) {
                producer.newMessage().key("k" + each).property("a", "b").value(("m" + each).getBytes()).send();
            }
        }
    }

    private static String text(Method method, String subject, int place) {
        String name = method.getName();
        if (place == 0) {
            return name.equals("updateDynamicConfiguration") || name.equals("deleteDynamicConfiguration")
                    ? "maxProducersPerTopic" : subject;
        } else if (name.contains("Bundle") && place == 1) {
            return WHOLE;
        } else if (name.equals("examineMessage")) {
            return "earliest";
        } else if (name.equals("updateDynamicConfiguration")) {
            return "7";
        }
        return "s";
    }

    private static String refusal(Throwable cause) {
        if (cause instanceof PulsarAdminException) {
            return cause.getClass().getSimpleName() + " " + ((PulsarAdminException) cause).getStatusCode();
        }
        return cause.getClass().getSimpleName();
    }
}
