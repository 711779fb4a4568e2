#!/bin/sh
# What operators keep in a file for pulsar-admin and pulsar-client. The two programs come as variables:
#
#     PULSAR_ADMIN=pulsar-admin PULSAR_CLIENT=pulsar-client admin_script.sh     # as it was
#     PULSAR_ADMIN=milepost PULSAR_CLIENT=milepost admin_script.sh              # as it is here
#
# test_cli_script.py runs the second and compares what it prints with admin_script.out.
set -eu

TOPIC=persistent://public/default/shop-orders
FIRST=$TOPIC-partition-0

say() { echo "== $*"; }
backlog() { $PULSAR_ADMIN topics stats "$FIRST" | grep '"msgBacklog" :' | tr -d ' ,'; }

say create a partitioned topic
$PULSAR_ADMIN topics create-partitioned-topic --partitions 2 $TOPIC
$PULSAR_ADMIN topics get-partitioned-topic-metadata $TOPIC
$PULSAR_ADMIN topics list-partitioned-topics public/default
$PULSAR_ADMIN topics list public/default

say subscribe
$PULSAR_ADMIN topics create-subscription -s billing -m earliest $TOPIC
$PULSAR_ADMIN topics subscriptions $TOPIC

say produce
$PULSAR_CLIENT produce -m coffee -n 6 -k guest-7 -p size=large -db $FIRST
backlog

say peek
$PULSAR_ADMIN topics peek-messages -s billing -n 2 $FIRST

say skip
$PULSAR_ADMIN topics skip -s billing -n 2 $FIRST
backlog

say ids
LAST=$($PULSAR_ADMIN topics get-message-id-by-index --index 5 $FIRST)
THIRD=$($PULSAR_ADMIN topics get-message-id-by-index -i 3 $FIRST)
$PULSAR_ADMIN topics last-message-id $FIRST
echo "index 3 is $THIRD, index 5 is $LAST"

say reset by time
$PULSAR_ADMIN topics reset-cursor -s billing --time 1h $FIRST
backlog

say reset by id
$PULSAR_ADMIN topics reset-cursor -s billing --messageId "${THIRD%:*}" $FIRST
backlog
$PULSAR_ADMIN topics reset-cursor -s billing -m "${THIRD%:*}" -e $FIRST
backlog

say stats
$PULSAR_ADMIN topics stats $FIRST | grep -E '"(msgInCounter|isDurable)" :'
$PULSAR_ADMIN topics partitioned-stats $TOPIC | grep '"partitions" : 2'
$PULSAR_ADMIN topics stats-internal $FIRST | grep -E '"(numberOfEntries|lastConfirmedEntry)" :'

say clear and delete
$PULSAR_ADMIN topics clear-backlog -s billing $FIRST
backlog
$PULSAR_ADMIN topics unsubscribe -s billing $TOPIC
$PULSAR_ADMIN topics delete-partitioned-topic $TOPIC
$PULSAR_ADMIN topics list public/default
