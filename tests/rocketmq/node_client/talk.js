// What the tests let RocketMQ's official Node client do: talk.js ENDPOINT COMMAND TOPIC name=value…
//
// The commands are those of the programs beside it: send, receive, push, transact, recall. Every line of the
// output is a JSON object, but for the last, "end".
'use strict';

const { Producer, SimpleConsumer, PushConsumer, FilterExpression, ConsumeResult } = require('rocketmq-client-nodejs');
const { FilterType, TransactionResolution } = require('rocketmq-client-nodejs/proto/apache/rocketmq/v2/definition_pb');

const [ endpoints, command, topic, ...rest ] = process.argv.slice(2);
const options = Object.fromEntries(rest.map(one => [ one.split('=', 1)[0], one.slice(one.indexOf('=') + 1) ]));
const quiet = { debug() {}, info() {}, warn() {}, error: console.error };
const base = { endpoints, namespace: '', sslEnabled: 'tls' in options, requestTimeout: 15000, logger: quiet };
if ('key' in options) {
  base.sessionCredentials = { accessKey: options.key, accessSecret: options.secret || '' };
}

const say = line => process.stdout.write((typeof line === 'string' ? line : JSON.stringify(line)) + '\n');
const number = (name, other) => Number(options[name] === undefined ? other : options[name]);
const released = () => new Promise(resolve => process.stdin.on('end', resolve).resume());

function view(one) {
  return {
    id: one.messageId, body: one.body.toString(), tag: one.tag || '', keys: one.keys, group: one.messageGroup || '',
    attempt: one.deliveryAttempt, properties: Object.fromEntries(one.properties),
  };
}

function message(at) {
  const made = { topic, body: Buffer.from((options.body || 'm') + at) };
  if (options.tag) made.tag = options.tag;
  if (options.keys) made.keys = options.keys.split(',');
  if (options.group) made.messageGroup = options.group;
  if (options.delay_ms) made.deliveryTimestamp = new Date(Date.now() + number('delay_ms'));
  if (options.property) made.properties = new Map([ options.property.split(':', 2) ]);
  return made;
}

function filters() {
  const kind = 'sql' in options ? FilterType.SQL : FilterType.TAG;
  return new Map([[ topic, new FilterExpression(options.filter || '*', kind) ]]);
}

async function producer(more) {
  const made = new Producer({ ...base, topics: [ topic ], topic, ...more });
  await made.startup();
  return made;
}

const commands = {
  async send() {
    const one = await producer();
    for (let at = 0; at < number('count', 1); at++) {
      const receipt = await one.send(message(at));
      say({ id: receipt.messageId, offset: receipt.offset, recall: receipt.recallHandle || '' });
    }
    await one.shutdown();
  },

  async recall() {
    const one = await producer();
    say({ id: (await one.recallMessage(topic, options.handle)).messageId });
    await one.shutdown();
  },

  async receive() {
    const consumer = new SimpleConsumer({
      ...base, consumerGroup: options.consumers || 'g', subscriptions: filters(), awaitDuration: 5000,
    });
    await consumer.startup();
    const count = number('count', 1);
    let taken = 0;
    for (const end = Date.now() + 30000; taken < count && Date.now() < end;) {
      for (const one of await consumer.receive(count, number('invisible_s', 60) * 1000)) {
        taken++;
        say(view(one));
        if (options.change_s) await consumer.changeInvisibleDuration(one, number('change_s') * 1000);
        else if (!('keep' in options)) await consumer.ack(one);
      }
    }
    await consumer.shutdown();
  },

  async push() {
    const listener = {
      async consume(one) {
        say(view(one));
        const fails = one.body.toString() === options.fail && one.deliveryAttempt <= number('times', 1);
        return fails ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
      },
    };
    const consumer = new PushConsumer({
      ...base, consumerGroup: options.consumers || 'g', subscriptions: filters(), messageListener: listener,
    });
    await consumer.startup();
    await released();
  },

  async transact() {
    const answer = options.end === 'check-commit' ? TransactionResolution.COMMIT : TransactionResolution.ROLLBACK;
    const one = await producer({ checker: { async check(half) { say(view(half)); return answer; } } });
    const transaction = one.beginTransaction();
    await one.send(message(0), transaction);
    if (options.end === 'commit') await transaction.commit();
    else if (options.end === 'rollback') await transaction.rollback();
    else await released(); // the broker asks
    await one.shutdown();
  },
};

commands[command]().then(() => process.stdout.write('end\n', () => process.exit(0)), error => { console.error(error); process.exit(1); });
