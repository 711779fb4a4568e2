"""What is left out of the suites of official clients, each with its reason.

Names only: nothing of the suites themselves is here. What is not named is run, and has to pass.
"""

from __future__ import annotations

DOCKER = "starts brokers of its own with Docker"
NETWORK = "needs a network beyond this machine, and no broker"
CHUNKS = "looks for half of a message inside the client; chunked messages are delivered whole or not at all"
STRANGERS = (
    "expects a role without rights to be told that a tenant does not exist; it is told that it may not, "
    "whatever exists"
)
WORDS = "compares the text of a refusal with upstream's; Milepost has its own, and the same status"
SETTINGS = "stores text in a setting that is a switch"

PYTHON_FILES = {
    "auto_cluster_failover_test.py": DOCKER,
    "oauth2_test.py": NETWORK,
}
PYTHON = {
    "pulsar_test.py::PulsarTest::test_connect_timeout": NETWORK,
    "asyncio_test.py::AsyncioTest::test_create_producer_failure": STRANGERS,
}

GO = {
    "TestConsumerKeepReconnectingAndThenCallClose": DOCKER,
    "TestConsumerOnCloseInterceptorOnMaxReconnect": DOCKER,
    "TestProducerKeepReconnectingAndThenCallClose": DOCKER,
    "TestReconnectConsumer": DOCKER,
    "TestReconnectedBrokerSendPermits": DOCKER,
    "TestSendAsyncCouldTimeoutWhileReconnecting": DOCKER,
    "TestMaxPendingChunkMessages": CHUNKS,
    "TestNamespaces_SetMaxTopicsPerNamespace": WORDS,
    "TestNamespaces_SetOffloadThresholdInSeconds": WORDS,
    "TestNamespaces_SetSchemaCompatibilityStrategy": WORDS,
    "TestNamespaces_SetSubscriptionExpirationTime": WORDS,
    "TestSetTopicAutoCreation": WORDS,
    "TestUpdateDynamicConfigurationWithCustomURL": SETTINGS,
}
