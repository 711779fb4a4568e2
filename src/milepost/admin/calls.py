"""All calls of the admin client, in one table.

What a call asks and returns is described beside its resource; here it becomes a method of both
faces. A new call is a script in one of those files and a line here.
"""

from __future__ import annotations

from milepost.admin import (
    brokers,
    messages,
    namespaces,
    placement,
    policies,
    progress,
    resets,
    schemas,
    subscriptions,
    tenants,
    topics,
    transactions,
)
from milepost.admin.face import call


class Calls:
    # Topics.
    list_topics = call(topics.list_topics)
    list_partitioned_topics = call(topics.list_partitioned_topics)
    create_topic = call(topics.create_topic)
    create_partitioned_topic = call(topics.create_partitioned_topic)
    update_partitioned_topic = call(topics.update_partitioned_topic)
    create_missed_partitions = call(topics.create_missed_partitions)
    get_partitioned_topic_metadata = call(topics.get_partitioned_topic_metadata)
    delete_topic = call(topics.delete_topic)
    delete_partitioned_topic = call(topics.delete_partitioned_topic)
    truncate_topic = call(topics.truncate_topic)
    get_losses = call(topics.get_losses)
    accept_loss = call(topics.accept_loss)
    unload_topic = call(topics.unload_topic)
    trim_topic = call(topics.trim_topic)
    terminate_topic = call(topics.terminate_topic)
    terminate_partitioned_topic = call(topics.terminate_partitioned_topic)
    get_stats = call(topics.get_stats)
    get_partitioned_stats = call(topics.get_partitioned_stats)
    get_internal_stats = call(topics.get_internal_stats)
    get_partitioned_internal_stats = call(topics.get_partitioned_internal_stats)
    get_internal_info = call(topics.get_internal_info)
    get_topic_properties = call(topics.get_topic_properties)
    update_topic_properties = call(topics.update_topic_properties)
    remove_topic_property = call(topics.remove_topic_property)
    lookup_topic = call(topics.lookup_topic)
    lookup_partitioned_topic = call(topics.lookup_partitioned_topic)
    get_bundle_range = call(topics.get_bundle_range)
    compact_topic = call(topics.compact_topic)
    get_compaction_status = call(topics.get_compaction_status)
    get_topic_permissions = call(topics.get_topic_permissions)
    grant_topic_permission = call(topics.grant_topic_permission)
    revoke_topic_permission = call(topics.revoke_topic_permission)

    # Schemas.
    get_schema = call(schemas.get_schema)
    get_all_schemas = call(schemas.get_all_schemas)
    create_schema = call(schemas.create_schema)
    delete_schema = call(schemas.delete_schema)
    get_schema_compatibility = call(schemas.get_schema_compatibility)
    get_schema_version = call(schemas.get_schema_version)

    # Subscriptions.
    get_subscriptions = call(subscriptions.get_subscriptions)
    create_subscription = call(subscriptions.create_subscription)
    delete_subscription = call(subscriptions.delete_subscription)
    get_subscription_properties = call(subscriptions.get_subscription_properties)
    update_subscription_properties = call(subscriptions.update_subscription_properties)
    skip_messages = call(subscriptions.skip_messages)
    skip_all_messages = call(subscriptions.skip_all_messages)
    expire_messages = call(subscriptions.expire_messages)
    expire_messages_until = call(subscriptions.expire_messages_until)
    expire_messages_for_all_subscriptions = call(
        subscriptions.expire_messages_for_all_subscriptions
    )
    reset_cursor = call(subscriptions.reset_cursor)
    reset_cursor_to_time = call(subscriptions.reset_cursor_to_time)
    analyze_subscription_backlog = call(subscriptions.analyze_subscription_backlog)

    # What Pulsar has no path for.
    reset_subscription = call(resets.reset_subscription)
    get_resets = call(resets.get_resets)
    get_progress = call(progress.get_progress)
    get_strip = call(progress.get_strip)
    get_overview = call(progress.get_overview)
    search_topics = call(progress.search_topics)

    # Policies.
    get_policy = call(policies.get_policy)
    set_policy = call(policies.set_policy)
    remove_policy = call(policies.remove_policy)
    get_topic_policy = call(policies.get_topic_policy)
    set_topic_policy = call(policies.set_topic_policy)
    remove_topic_policy = call(policies.remove_topic_policy)

    # Messages and positions.
    get_message_id_by_index = call(messages.get_message_id_by_index)
    get_index_by_message_id = call(messages.get_index_by_message_id)
    get_message_id_by_timestamp = call(messages.get_message_id_by_timestamp)
    get_last_message_id = call(messages.get_last_message_id)
    get_backlog_size = call(messages.get_backlog_size)
    get_message_by_id = call(messages.get_message_by_id)
    examine_message = call(messages.examine_message)
    peek_entry = call(messages.peek_entry)
    peek_messages = call(messages.peek_messages)

    # Namespaces.
    list_namespaces = call(namespaces.list_namespaces)
    create_namespace = call(namespaces.create_namespace)
    delete_namespace = call(namespaces.delete_namespace)
    get_namespace_topics = call(namespaces.get_namespace_topics)
    get_policies = call(namespaces.get_policies)
    get_namespace_permissions = call(namespaces.get_namespace_permissions)
    grant_namespace_permission = call(namespaces.grant_namespace_permission)
    revoke_namespace_permission = call(namespaces.revoke_namespace_permission)
    get_subscription_permissions = call(namespaces.get_subscription_permissions)
    grant_subscription_permission = call(namespaces.grant_subscription_permission)
    revoke_subscription_permission = call(namespaces.revoke_subscription_permission)
    get_namespace_properties = call(namespaces.get_namespace_properties)
    get_namespace_property = call(namespaces.get_namespace_property)
    set_namespace_properties = call(namespaces.set_namespace_properties)
    remove_namespace_property = call(namespaces.remove_namespace_property)
    clear_namespace_properties = call(namespaces.clear_namespace_properties)
    get_bundles = call(namespaces.get_bundles)
    clear_namespace_backlog = call(namespaces.clear_namespace_backlog)
    unsubscribe_namespace = call(namespaces.unsubscribe_namespace)
    unload_namespace = call(namespaces.unload_namespace)

    # Tenants, clusters, the broker.
    list_tenants = call(tenants.list_tenants)
    get_tenant = call(tenants.get_tenant)
    create_tenant = call(tenants.create_tenant)
    update_tenant = call(tenants.update_tenant)
    delete_tenant = call(tenants.delete_tenant)
    list_clusters = call(tenants.list_clusters)
    list_brokers = call(brokers.list_brokers)
    check_health = call(brokers.check_health)
    get_version = call(brokers.get_version)
    is_milepost = call(brokers.is_milepost)
    get_leader_broker = call(brokers.get_leader_broker)
    get_owned_namespaces = call(brokers.get_owned_namespaces)
    get_broker_topics = call(brokers.get_broker_topics)
    list_dynamic_settings = call(brokers.list_dynamic_settings)
    get_dynamic_settings = call(brokers.get_dynamic_settings)
    get_runtime_settings = call(brokers.get_runtime_settings)
    get_internal_configuration = call(brokers.get_internal_configuration)
    set_dynamic_setting = call(brokers.set_dynamic_setting)
    remove_dynamic_setting = call(brokers.remove_dynamic_setting)
    check_backlog_quotas = call(brokers.check_backlog_quotas)

    # Bundles, clusters, resource groups, numbers.
    split_bundle = call(placement.split_bundle)
    get_topic_positions = call(placement.get_topic_positions)
    list_topics_in_bundle = call(placement.list_topics_in_bundle)
    get_namespaces_of_group = call(placement.get_namespaces_of_group)
    get_replicated_status = call(placement.get_replicated_status)
    set_replicated_status = call(placement.set_replicated_status)
    offload_topic = call(placement.offload_topic)
    get_offload_status = call(placement.get_offload_status)
    list_resource_groups = call(placement.list_resource_groups)
    get_resource_group = call(placement.get_resource_group)
    put_resource_group = call(placement.put_resource_group)
    delete_resource_group = call(placement.delete_resource_group)
    get_broker_metrics = call(placement.get_broker_metrics)
    get_load_report = call(placement.get_load_report)

    # Transactions.
    list_coordinators = call(transactions.list_coordinators)
    get_coordinator_stats = call(transactions.get_coordinator_stats)
    get_coordinator_internal_stats = call(transactions.get_coordinator_internal_stats)
    get_slow_transactions = call(transactions.get_slow_transactions)
    get_transaction_metadata = call(transactions.get_transaction_metadata)
    get_transaction_in_buffer_stats = call(transactions.get_transaction_in_buffer_stats)
    get_transaction_in_pending_ack_stats = call(transactions.get_transaction_in_pending_ack_stats)
    get_transaction_buffer_stats = call(transactions.get_transaction_buffer_stats)
    get_transaction_buffer_internal_stats = call(transactions.get_transaction_buffer_internal_stats)
    get_pending_ack_stats = call(transactions.get_pending_ack_stats)
    get_pending_ack_internal_stats = call(transactions.get_pending_ack_internal_stats)
    get_position_stats_in_pending_ack = call(transactions.get_position_stats_in_pending_ack)
    abort_transaction = call(transactions.abort_transaction)
    scale_transaction_coordinators = call(transactions.scale_transaction_coordinators)
