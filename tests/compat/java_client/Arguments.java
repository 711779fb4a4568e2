import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import org.apache.pulsar.client.admin.GetStatsOptions;
import org.apache.pulsar.client.admin.ListNamespaceTopicsOptions;
import org.apache.pulsar.client.admin.ListTopicsOptions;
import org.apache.pulsar.client.admin.Mode;
import org.apache.pulsar.client.api.BatchReceivePolicy;
import org.apache.pulsar.client.api.BatcherBuilder;
import org.apache.pulsar.client.api.DeadLetterPolicy;
import org.apache.pulsar.client.api.KeySharedPolicy;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.RedeliveryBackoff;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.SubscriptionType;
import org.apache.pulsar.client.impl.MultiplierRedeliveryBackoff;
import org.apache.pulsar.common.policies.data.AuthAction;
import org.apache.pulsar.common.policies.data.AutoSubscriptionCreationOverride;
import org.apache.pulsar.common.policies.data.AutoTopicCreationOverride;
import org.apache.pulsar.common.policies.data.BacklogQuota;
import org.apache.pulsar.common.policies.data.BundlesData;
import org.apache.pulsar.common.policies.data.ClusterData;
import org.apache.pulsar.common.policies.data.DelayedDeliveryPolicies;
import org.apache.pulsar.common.policies.data.DispatchRate;
import org.apache.pulsar.common.policies.data.EntryFilters;
import org.apache.pulsar.common.policies.data.InactiveTopicDeleteMode;
import org.apache.pulsar.common.policies.data.InactiveTopicPolicies;
import org.apache.pulsar.common.policies.data.PersistencePolicies;
import org.apache.pulsar.common.policies.data.Policies;
import org.apache.pulsar.common.policies.data.PublishRate;
import org.apache.pulsar.common.policies.data.ResourceGroup;
import org.apache.pulsar.common.policies.data.ResourceQuota;
import org.apache.pulsar.common.policies.data.RetentionPolicies;
import org.apache.pulsar.common.policies.data.SubscribeRate;
import org.apache.pulsar.common.policies.data.TenantInfo;
import org.apache.pulsar.common.protocol.schema.PostSchemaPayload;
import org.apache.pulsar.common.schema.SchemaInfo;

/** A plain value for a parameter of an official interface, by its type. */
final class Arguments {
    /** There is no plain value of this type: what takes one is not called. */
    static final Object NONE = new Object();

    private Arguments() {}

    /** The value; texts and what holds a name are the caller's, who knows what they mean. */
    static Object of(Type type) throws Exception {
        if (type instanceof ParameterizedType) {
            return ofMany((ParameterizedType) type);
        }
        if (!(type instanceof Class)) {
            return NONE;
        }
        Class<?> plain = (Class<?>) type;
        if (plain == int.class || plain == Integer.class) {
            return 2;
        } else if (plain == long.class || plain == Long.class) {
            return 3L;
        } else if (plain == boolean.class || plain == Boolean.class) {
            return true;
        } else if (plain == TimeUnit.class) {
            return TimeUnit.SECONDS;
        } else if (plain == BacklogQuota.BacklogQuotaType.class) {
            return BacklogQuota.BacklogQuotaType.destination_storage;
        } else if (plain.isEnum()) {
            return plain.getEnumConstants()[0];
        }
        Object policy = policy(plain);
        return policy == NONE ? ofClient(plain) : policy;
    }

    private static Object ofMany(ParameterizedType type) {
        Type raw = type.getRawType();
        Type first = type.getActualTypeArguments()[0];
        if (raw == Map.class) {
            return first == String.class && type.getActualTypeArguments()[1] == String.class ? Map.of("k", "v") : NONE;
        } else if (raw == Optional.class) {
            return Optional.empty();
        } else if (first == String.class && raw == Set.class) {
            return Set.of("standalone");
        } else if (first == String.class && raw == List.class) {
            return List.of("standalone");
        } else if (first == String.class && raw == LinkedHashSet.class) {
            return new LinkedHashSet<>(List.of("standalone"));
        } else if (first == AuthAction.class) {
            return Set.of(AuthAction.consume);
        } else if (first == SubscriptionType.class) {
            return Set.of(SubscriptionType.Shared);
        } else if (first == Long.class) {
            return List.of(1L);
        }
        return NONE;
    }

    private static Object policy(Class<?> type) {
        if (type == RetentionPolicies.class) {
            return new RetentionPolicies(100, 200);
        } else if (type == BacklogQuota.class) {
            return BacklogQuota.builder().limitSize(1 << 20)
                    .retentionPolicy(BacklogQuota.RetentionPolicy.producer_exception).build();
        } else if (type == DispatchRate.class) {
            return DispatchRate.builder().dispatchThrottlingRateInMsg(7).dispatchThrottlingRateInByte(900)
                    .ratePeriodInSecond(1).build();
        } else if (type == PublishRate.class) {
            return new PublishRate(7, 900);
        } else if (type == SubscribeRate.class) {
            return new SubscribeRate(7, 30);
        } else if (type == PersistencePolicies.class) {
            return new PersistencePolicies(1, 1, 1, 0);
        } else if (type == InactiveTopicPolicies.class) {
            return new InactiveTopicPolicies(InactiveTopicDeleteMode.delete_when_no_subscriptions, 3600, true);
        } else if (type == DelayedDeliveryPolicies.class) {
            return DelayedDeliveryPolicies.builder().active(true).tickTime(1000).build();
        } else if (type == AutoTopicCreationOverride.class) {
            return AutoTopicCreationOverride.builder().allowAutoTopicCreation(true).topicType("partitioned")
                    .defaultNumPartitions(2).build();
        } else if (type == AutoSubscriptionCreationOverride.class) {
            return AutoSubscriptionCreationOverride.builder().allowAutoSubscriptionCreation(false).build();
        } else if (type == BundlesData.class) {
            return BundlesData.builder().numBundles(2).build();
        } else if (type == Policies.class) {
            return new Policies();
        } else if (type == EntryFilters.class) {
            return new EntryFilters("none");
        } else if (type == TenantInfo.class) {
            return TenantInfo.builder().allowedClusters(Set.of("standalone")).build();
        } else if (type == ClusterData.class) {
            return ClusterData.builder().serviceUrl("http://127.0.0.1:1").brokerServiceUrl("pulsar://127.0.0.1:2").build();
        } else if (type == ResourceGroup.class) {
            return new ResourceGroup();
        } else if (type == ResourceQuota.class) {
            return new ResourceQuota();
        } else if (type == SchemaInfo.class) {
            return Schema.STRING.getSchemaInfo();
        } else if (type == PostSchemaPayload.class) {
            return new PostSchemaPayload("STRING", "", Map.of());
        }
        return NONE;
    }

    private static Object ofClient(Class<?> type) {
        if (type == MessageId.class) {
            return MessageId.earliest;
        } else if (type == GetStatsOptions.class) {
            return GetStatsOptions.builder().getPreciseBacklog(true).subscriptionBacklogSize(true).build();
        } else if (type == ListTopicsOptions.class) {
            return ListTopicsOptions.EMPTY;
        } else if (type == ListNamespaceTopicsOptions.class) {
            return ListNamespaceTopicsOptions.builder().mode(Mode.PERSISTENT).build();
        } else if (type == Pattern.class) {
            return Pattern.compile("persistent://public/default/none-.*");
        } else if (type == BatchReceivePolicy.class) {
            return BatchReceivePolicy.builder().maxNumMessages(2).build();
        } else if (type == DeadLetterPolicy.class) {
            return DeadLetterPolicy.builder().maxRedeliverCount(3).build();
        } else if (type == KeySharedPolicy.class) {
            return KeySharedPolicy.autoSplitHashRange();
        } else if (type == RedeliveryBackoff.class) {
            return MultiplierRedeliveryBackoff.builder().build();
        } else if (type == BatcherBuilder.class) {
            return BatcherBuilder.KEY_BASED;
        }
        return NONE;
    }
}
