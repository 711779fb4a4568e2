import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.admin.Namespaces;
import org.apache.pulsar.client.admin.PulsarAdmin;
import org.apache.pulsar.client.admin.PulsarAdminException;
import org.apache.pulsar.client.admin.TopicPolicies;
import org.apache.pulsar.client.admin.Topics;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.SubscriptionType;
import org.apache.pulsar.common.policies.data.AuthAction;
import org.apache.pulsar.common.policies.data.BacklogQuota;
import org.apache.pulsar.common.policies.data.ConsumerStats;
import org.apache.pulsar.common.policies.data.DelayedDeliveryPolicies;
import org.apache.pulsar.common.policies.data.DispatchRate;
import org.apache.pulsar.common.policies.data.InactiveTopicDeleteMode;
import org.apache.pulsar.common.policies.data.InactiveTopicPolicies;
import org.apache.pulsar.common.policies.data.ManagedLedgerInternalStats;
import org.apache.pulsar.common.policies.data.PartitionedTopicStats;
import org.apache.pulsar.common.policies.data.PersistencePolicies;
import org.apache.pulsar.common.policies.data.PersistentTopicInternalStats;
import org.apache.pulsar.common.policies.data.Policies;
import org.apache.pulsar.common.policies.data.PublishRate;
import org.apache.pulsar.common.policies.data.RetentionPolicies;
import org.apache.pulsar.common.policies.data.SchemaCompatibilityStrategy;
import org.apache.pulsar.common.policies.data.SubscribeRate;
import org.apache.pulsar.common.policies.data.SubscriptionStats;
import org.apache.pulsar.common.policies.data.TenantInfo;
import org.apache.pulsar.common.policies.data.TopicStats;

/** The admin client: what it asks is answered, and what is answered its own classes understand. */
final class Administration {
    private static final String SPACE = "acme/shop";
    private static final String TOPIC = "persistent://acme/shop/orders";

    /** Getters of what Milepost has not: offloading, other clusters, bookies, groups of resources. */
    private static final Set<String> ABSENT = Set.of("getNamespaceAllowedClusters", "getAntiAffinityNamespaces",
            "getNamespaceAntiAffinityGroup", "getBookieAffinityGroup", "getNamespaceResourceGroup",
            "getOffloadDeleteLagMs", "getOffloadPolicies", "getOffloadThreshold", "getOffloadThresholdInSeconds",
            "getReplicationConfigVersion", "getReplicationClusters", "getShadowTopics", "getShadowSource",
            "getReplicatedSubscriptionStatus", "getEntryFiltersPerTopic", "getNamespaceEntryFilters",
            "getSchemaAutoUpdateCompatibilityStrategy", "getAllowedTopicPropertyKeysForMetrics");

    private final Checks checks;
    private final PulsarAdmin admin;

    Administration(Checks checks) {
        this.checks = checks;
        admin = checks.admin;
    }

    void run() {
        checks.check("admin_tenants", this::tenants);
        checks.check("admin_namespaces", this::namespaces);
        checks.check("admin_namespace_policies", this::namespacePolicies);
        checks.check("admin_topics", this::topics);
        checks.check("admin_topic_policies", this::topicPolicies);
        checks.check("admin_subscriptions", this::subscriptions);
        checks.check("admin_messages", this::messages);
        checks.check("admin_stats", this::stats);
        checks.check("admin_partitioned_stats", this::partitionedStats);
        checks.check("admin_internal_stats", this::internalStats);
        checks.check("admin_permissions", this::permissions);
        checks.check("admin_brokers", this::brokers);
        checks.check("admin_getters_of_namespaces", () -> getters(Namespaces.class, admin.namespaces(), SPACE));
        checks.check("admin_getters_of_topics", () -> getters(Topics.class, admin.topics(), TOPIC));
        checks.check("admin_getters_of_topic_policies",
                () -> getters(TopicPolicies.class, admin.topicPolicies(), TOPIC));
        checks.check("admin_errors", this::errors);
    }

    private void tenants() throws Exception {
        TenantInfo info =
                TenantInfo.builder().adminRoles(Set.of("boss")).allowedClusters(Set.of("standalone")).build();
        admin.tenants().createTenant("acme", info);
        Checks.same(info, admin.tenants().getTenantInfo("acme"));
        Checks.expect(admin.tenants().getTenants().contains("acme"), "the tenant is not in the list");
        TenantInfo other =
                TenantInfo.builder().adminRoles(Set.of("other")).allowedClusters(Set.of("standalone")).build();
        admin.tenants().updateTenant("acme", other);
        Checks.same(other, admin.tenants().getTenantInfo("acme"));
        admin.tenants().createTenant("brief", info);
        admin.tenants().deleteTenant("brief");
        Checks.expect(!admin.tenants().getTenants().contains("brief"), "a deleted tenant is in the list");
    }

    private void namespaces() throws Exception {
        Policies given = new Policies();
        given.replication_clusters = Set.of("standalone");
        given.retention_policies = new RetentionPolicies(5, 6);
        given.auth_policies.getNamespaceAuthentication().put("app", Set.of(AuthAction.produce));
        admin.namespaces().createNamespace(SPACE, given);
        Policies found = admin.namespaces().getPolicies(SPACE);
        Checks.same(given.retention_policies, found.retention_policies);
        Checks.same(given.auth_policies.getNamespaceAuthentication(), found.auth_policies.getNamespaceAuthentication());
        Checks.same(List.of(SPACE), admin.namespaces().getNamespaces("acme"));
        admin.namespaces().createNamespace("acme/brief", 4);
        Checks.expect(admin.namespaces().getBundles("acme/brief").getNumBundles() >= 1, "no bundle");
        admin.namespaces().deleteNamespace("acme/brief");
        admin.namespaces().setProperties(SPACE, Map.of("team", "blue"));
        Checks.same("blue", admin.namespaces().getProperty(SPACE, "team"));
    }

    private void namespacePolicies() throws Exception {
        Namespaces namespaces = admin.namespaces();
        namespaces.setRetention(SPACE, new RetentionPolicies(10, 20));
        Checks.same(new RetentionPolicies(10, 20), namespaces.getRetention(SPACE));
        namespaces.setNamespaceMessageTTL(SPACE, 600);
        Checks.same(600, namespaces.getNamespaceMessageTTL(SPACE));
        BacklogQuota quota = BacklogQuota.builder().limitSize(1 << 20)
                .retentionPolicy(BacklogQuota.RetentionPolicy.producer_exception).build();
        namespaces.setBacklogQuota(SPACE, quota);
        Checks.same(quota, namespaces.getBacklogQuotaMap(SPACE).get(BacklogQuota.BacklogQuotaType.destination_storage));
        namespaces.setDeduplicationStatus(SPACE, false);
        Checks.same(false, namespaces.getDeduplicationStatus(SPACE));
        namespaces.setPersistence(SPACE, new PersistencePolicies(1, 1, 1, 2.0));
        Checks.same(new PersistencePolicies(1, 1, 1, 2.0), namespaces.getPersistence(SPACE));
        DispatchRate rate = DispatchRate.builder().dispatchThrottlingRateInMsg(5000).dispatchThrottlingRateInByte(1 << 20)
                .ratePeriodInSecond(1).build();
        namespaces.setDispatchRate(SPACE, rate);
        Checks.same(rate, namespaces.getDispatchRate(SPACE));
        namespaces.setSubscriptionDispatchRate(SPACE, rate);
        Checks.same(rate, namespaces.getSubscriptionDispatchRate(SPACE));
        namespaces.setPublishRate(SPACE, new PublishRate(5000, 1 << 20));
        Checks.same(new PublishRate(5000, 1 << 20), namespaces.getPublishRate(SPACE));
        namespaces.setSubscribeRate(SPACE, new SubscribeRate(10, 30));
        Checks.same(new SubscribeRate(10, 30), namespaces.getSubscribeRate(SPACE));
        namespaces.setMaxProducersPerTopic(SPACE, 100);
        Checks.same(100, namespaces.getMaxProducersPerTopic(SPACE));
        namespaces.setMaxUnackedMessagesPerConsumer(SPACE, 1000);
        Checks.same(1000, namespaces.getMaxUnackedMessagesPerConsumer(SPACE));
        namespaces.setDelayedDeliveryMessages(SPACE,
                DelayedDeliveryPolicies.builder().active(true).tickTime(500).build());
        Checks.same(500L, namespaces.getDelayedDelivery(SPACE).getTickTime());
        InactiveTopicPolicies inactive =
                new InactiveTopicPolicies(InactiveTopicDeleteMode.delete_when_no_subscriptions, 3600, true);
        namespaces.setInactiveTopicPolicies(SPACE, inactive);
        Checks.same(inactive, namespaces.getInactiveTopicPolicies(SPACE));
        namespaces.setSchemaCompatibilityStrategy(SPACE, SchemaCompatibilityStrategy.BACKWARD);
        Checks.same(SchemaCompatibilityStrategy.BACKWARD, namespaces.getSchemaCompatibilityStrategy(SPACE));
        namespaces.setCompactionThreshold(SPACE, 1 << 20);
        Checks.same((long) (1 << 20), namespaces.getCompactionThreshold(SPACE));
        // All of them at once, by the class that knows them all.
        Policies policies = namespaces.getPolicies(SPACE);
        Checks.same(600, policies.message_ttl_in_seconds);
        Checks.same(100, policies.max_producers_per_topic);
        Checks.same(inactive, policies.inactive_topic_policies);
        namespaces.removeRetention(SPACE);
        Checks.expect(namespaces.getRetention(SPACE) == null, "a policy that was removed");
    }

    private void topics() throws Exception {
        Topics topics = admin.topics();
        topics.createNonPartitionedTopic(TOPIC, Map.of("team", "blue"));
        topics.createPartitionedTopic("persistent://acme/shop/many", 2);
        topics.createPartitionedTopic("persistent://acme/shop/tagged", 2, Map.of("team", "red"));
        Checks.same("blue", topics.getProperties(TOPIC).get("team"));
        Checks.same("red", topics.getProperties("persistent://acme/shop/tagged").get("team"));
        Checks.same(2, topics.getPartitionedTopicMetadata("persistent://acme/shop/many").partitions);
        Checks.same(Set.of(TOPIC, "persistent://acme/shop/many-partition-0", "persistent://acme/shop/many-partition-1",
                "persistent://acme/shop/tagged-partition-0", "persistent://acme/shop/tagged-partition-1"),
                new TreeSet<>(topics.getList(SPACE)));
        Checks.same(Set.of("persistent://acme/shop/many", "persistent://acme/shop/tagged"),
                new TreeSet<>(topics.getPartitionedTopicList(SPACE)));
        topics.updatePartitionedTopic("persistent://acme/shop/many", 3);
        Checks.same(3, topics.getPartitionedTopicMetadata("persistent://acme/shop/many").partitions);
        topics.deletePartitionedTopic("persistent://acme/shop/tagged");
        Checks.same(1, topics.getPartitionedTopicList(SPACE).size());
        Checks.same(checks.url, admin.lookups().lookupTopic(TOPIC));
        Checks.expect(admin.lookups().getBundleRange(TOPIC).startsWith("0x"), "no range");
        topics.unload(TOPIC);
        Checks.refused(PulsarAdminException.NotFoundException.class, () -> topics.getStats("persistent://acme/shop/no"));
        topics.createNonPartitionedTopic("persistent://acme/shop/end");
        checks.send("persistent://acme/shop/end", 0, 2);
        Checks.expect(topics.terminateTopic("persistent://acme/shop/end") != null, "no last id");
        Checks.refused(Exception.class, () -> checks.send("persistent://acme/shop/end", 2, 3));
        topics.truncate("persistent://acme/shop/end");
        topics.delete("persistent://acme/shop/end");
    }

    private void topicPolicies() throws Exception {
        TopicPolicies policies = admin.topicPolicies();
        policies.setRetention(TOPIC, new RetentionPolicies(7, 8));
        Checks.same(new RetentionPolicies(7, 8), policies.getRetention(TOPIC));
        policies.setMessageTTL(TOPIC, 60);
        Checks.same(60, policies.getMessageTTL(TOPIC));
        policies.setMaxConsumers(TOPIC, 10);
        Checks.same(10, policies.getMaxConsumers(TOPIC));
        policies.setSubscriptionTypesEnabled(TOPIC, Set.of(SubscriptionType.Shared, SubscriptionType.Exclusive));
        Checks.same(Set.of(SubscriptionType.Shared, SubscriptionType.Exclusive),
                policies.getSubscriptionTypesEnabled(TOPIC));
        policies.removeSubscriptionTypesEnabled(TOPIC);
        policies.removeMessageTTL(TOPIC);
        Checks.expect(policies.getMessageTTL(TOPIC) == null, "a policy that was removed");
        Checks.same(600, policies.getMessageTTL(TOPIC, true));
        policies.removeRetention(TOPIC);
    }

    private void subscriptions() throws Exception {
        Topics topics = admin.topics();
        topics.createSubscription(TOPIC, "early", MessageId.earliest, false, Map.of("team", "blue"));
        topics.createSubscription(TOPIC, "late", MessageId.latest);
        Checks.same(Set.of("early", "late"), new TreeSet<>(topics.getSubscriptions(TOPIC)));
        Checks.same(Map.of("team", "blue"), topics.getSubscriptionProperties(TOPIC, "early"));
        topics.updateSubscriptionProperties(TOPIC, "early", Map.of("team", "red"));
        Checks.same(Map.of("team", "red"), topics.getSubscriptionProperties(TOPIC, "early"));
        checks.send(TOPIC, 0, 10);
        topics.skipMessages(TOPIC, "early", 3);
        Checks.same(7L, backlog("early"));
        Checks.same(List.of("m3", "m4"), texts(topics.peekMessages(TOPIC, "early", 2)));
        MessageId third = topics.peekMessages(TOPIC, "early", 1).get(0).getMessageId();
        topics.skipAllMessages(TOPIC, "early");
        Checks.same(0L, backlog("early"));
        topics.resetCursor(TOPIC, "early", third);
        Checks.same(7L, backlog("early"));
        topics.resetCursor(TOPIC, "early", 0);
        Checks.same(10L, backlog("early"));
        topics.expireMessages(TOPIC, "early", 3600);
        Checks.same(10L, backlog("early"));
        Checks.expect(topics.analyzeSubscriptionBacklog(TOPIC, "early", java.util.Optional.empty()).getMessages() == 10,
                "another backlog");
        Checks.expect(topics.getBacklogSizeByMessageId(TOPIC, third) > 0, "no backlog");
        topics.deleteSubscription(TOPIC, "late");
        Checks.same(List.of("early"), topics.getSubscriptions(TOPIC));
    }

    private long backlog(String subscription) throws Exception {
        return admin.topics().getStats(TOPIC).getSubscriptions().get(subscription).getMsgBacklog();
    }

    private static List<String> texts(List<Message<byte[]>> messages) {
        List<String> texts = new ArrayList<>();
        for (Message<byte[]> message : messages) {
            texts.add(new String(message.getData()));
        }
        return texts;
    }

    private void messages() throws Exception {
        Topics topics = admin.topics();
        String topic = "persistent://acme/shop/seen";
        try (Producer<byte[]> producer = checks.client.newProducer().topic(topic).batchingMaxMessages(3)
                .batchingMaxPublishDelay(10, TimeUnit.SECONDS).create()) {
            for (int number = 0; number < 3; number++) {
                producer.newMessage().key("k" + number).property("a", "b").value(("m" + number).getBytes()).sendAsync();
            }
            producer.flush();
        }
        Message<byte[]> first = topics.examineMessage(topic, "earliest", 1);
        Checks.same("m0", new String(first.getData()));
        Checks.same("k0", first.getKey());
        Checks.same("b", first.getProperty("a"));
        MessageId last = topics.getLastMessageId(topic);
        String[] parts = last.toString().split(":");
        List<Message<byte[]>> all =
                topics.getMessagesById(topic, Long.parseLong(parts[0]), Long.parseLong(parts[1]));
        Checks.same(Checks.numbered(0, 3), texts(all));
        Checks.expect(topics.getMessageIdByTimestamp(topic, 0) != null, "no id for a time");
        Checks.expect(topics.getMessageIdByIndex(topic, 0) != null, "no id for an index");
        Checks.refused(PulsarAdminException.class, () -> topics.getMessageIdByIndex(topic, 3));
    }

    private void stats() throws Exception {
        try (Consumer<byte[]> consumer = checks.client.newConsumer().topic(TOPIC).subscriptionName("watched")
                .subscriptionType(SubscriptionType.Key_Shared).consumerName("reader").subscribe();
                Producer<byte[]> producer = checks.client.newProducer().topic(TOPIC).producerName("writer").create()) {
            producer.send("m".getBytes());
            Checks.receive(consumer);
            TopicStats stats = admin.topics().getStats(TOPIC, true, true, true);
            Checks.same(1, stats.getPublishers().size());
            Checks.same("writer", stats.getPublishers().get(0).getProducerName());
            Checks.expect(stats.getMsgInCounter() >= 11, "messages in: " + stats.getMsgInCounter());
            Checks.expect(stats.getStorageSize() > 0, "no size");
            SubscriptionStats subscription = stats.getSubscriptions().get("watched");
            Checks.same("Key_Shared", subscription.getType());
            Checks.same(1L, subscription.getUnackedMessages());
            ConsumerStats one = subscription.getConsumers().get(0);
            Checks.same("reader", one.getConsumerName());
            Checks.same(1, one.getUnackedMessages());
            Checks.expect(one.getClientVersion().startsWith("Pulsar-Java"), one.getClientVersion());
        }
    }

    private void partitionedStats() throws Exception {
        String topic = "persistent://acme/shop/many";
        checks.send(topic, 0, 9);
        PartitionedTopicStats stats = admin.topics().getPartitionedStats(topic, true);
        Checks.same(3, stats.getMetadata().partitions);
        Checks.same(3, stats.getPartitions().size());
        Checks.same(9L, stats.getMsgInCounter());
        Checks.same(3, admin.topics().getPartitionedInternalStats(topic).partitions.size());
    }

    private void internalStats() throws Exception {
        PersistentTopicInternalStats stats = admin.topics().getInternalStats(TOPIC, true);
        Checks.same(11L, stats.entriesAddedCounter);
        Checks.expect(!stats.ledgers.isEmpty(), "no ledger");
        ManagedLedgerInternalStats.CursorStats cursor = stats.cursors.get("early");
        Checks.expect(cursor.markDeletePosition.contains(":"), cursor.markDeletePosition);
        Checks.expect(!admin.topics().getInternalInfo(TOPIC).isEmpty(), "nothing is known of it");
    }

    private void permissions() throws Exception {
        admin.namespaces().grantPermissionOnNamespace(SPACE, "app", Set.of(AuthAction.produce, AuthAction.consume));
        Checks.same(Map.of("app", Set.of(AuthAction.produce, AuthAction.consume)),
                admin.namespaces().getPermissions(SPACE));
        admin.topics().grantPermission(TOPIC, "reader", Set.of(AuthAction.consume));
        Checks.same(Set.of(AuthAction.consume), admin.topics().getPermissions(TOPIC).get("reader"));
        admin.topics().revokePermissions(TOPIC, "reader");
        admin.namespaces().revokePermissionsOnNamespace(SPACE, "app");
        Checks.same(Map.of(), admin.namespaces().getPermissions(SPACE));
    }

    private void brokers() throws Exception {
        admin.brokers().healthcheck();
        Checks.same(List.of("standalone"), admin.clusters().getClusters());
        Checks.expect(admin.clusters().getCluster("standalone").getBrokerServiceUrl().startsWith("pulsar://"), "no URL");
        Checks.same(1, admin.brokers().getActiveBrokers("standalone").size());
        Checks.expect(admin.brokers().getLeaderBroker().getServiceUrl().startsWith("http://"), "no leader");
        Checks.expect(!admin.brokers().getVersion().isEmpty(), "no version");
        Checks.expect(!admin.brokers().getDynamicConfigurationNames().isEmpty(), "no settings");
        Checks.expect(!admin.brokers().getRuntimeConfigurations().isEmpty(), "no settings");
        Checks.expect(admin.brokers().getInternalConfigurationData() != null, "no configuration");
        Checks.expect(!admin.brokerStats().getTopics().isEmpty(), "no topics");
    }

    /** Everything that can be asked about one name: an answer that the client understands, or a plain no. */
    private void getters(Class<?> type, Object on, String name) throws Exception {
        List<String> wrong = new ArrayList<>();
        int understood = 0;
        for (Method method : type.getMethods()) {
            boolean asks = method.getName().startsWith("get") || method.getName().startsWith("is");
            Class<?>[] parameters = method.getParameterTypes();
            if (!asks || parameters.length == 0 || parameters[0] != String.class || parameters.length > 2
                    || parameters.length == 2 && parameters[1] != boolean.class
                    || CompletableFuture.class.isAssignableFrom(method.getReturnType())) {
                continue;
            }
            if (Set.of("getList", "getPartitionedTopicList", "getNamespaces", "getPartitionedStats",
                    "getPartitionedInternalStats").contains(method.getName())) {
                continue; // they take another kind of name, and are asked above
            }
            try {
                method.invoke(on, parameters.length == 1 ? new Object[] {name} : new Object[] {name, true});
                understood++;
            } catch (InvocationTargetException failure) {
                boolean isPlainNo = failure.getCause() instanceof PulsarAdminException.NotFoundException
                        || failure.getCause() instanceof PulsarAdminException.NotAllowedException;
                if (!isPlainNo || !ABSENT.contains(method.getName())) {
                    wrong.add(method.getName() + ": " + failure.getCause());
                }
            }
        }
        Checks.expect(wrong.isEmpty(), String.join("; ", wrong));
        Checks.expect(understood > 20, "only " + understood + " were asked");
    }

    private void errors() throws Exception {
        Checks.refused(PulsarAdminException.ConflictException.class,
                () -> admin.tenants().createTenant("acme", TenantInfo.builder().allowedClusters(Set.of("standalone")).build()));
        Checks.refused(PulsarAdminException.ConflictException.class, () -> admin.namespaces().createNamespace(SPACE));
        Checks.refused(PulsarAdminException.ConflictException.class, () -> admin.topics().createNonPartitionedTopic(TOPIC));
        Checks.refused(PulsarAdminException.NotFoundException.class, () -> admin.namespaces().getPolicies("acme/none"));
        Checks.refused(PulsarAdminException.NotFoundException.class, () -> admin.topics().delete("persistent://acme/shop/no"));
        Checks.refused(PulsarAdminException.NotFoundException.class,
                () -> admin.topics().deleteSubscription(TOPIC, "nobody"));
        Checks.refused(PulsarAdminException.class, () -> admin.namespaces().setNamespaceMessageTTL(SPACE, -1));
        // Not empty: refused, and by its class.
        Checks.refused(PulsarAdminException.ConflictException.class, () -> admin.namespaces().deleteNamespace(SPACE));
    }
}
