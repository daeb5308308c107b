// kafkajs and @platformatic/kafka against one broker: compat.js HOST:PORT cases [NAME]...
// Runs every case below, or those that are named; prints `PASS name` or `FAIL name: why`.
'use strict'
const assert = require('node:assert')
const { randomUUID } = require('node:crypto')
const { readFileSync } = require('node:fs')
// Node 20 lacks it, and @platformatic/kafka asks for it.
Promise.withResolvers ??= function () {
  const made = {}
  made.promise = new Promise((resolve, reject) => Object.assign(made, { resolve, reject }))
  return made
}
const { Kafka, CompressionTypes, logLevel } = require('kafkajs')
const platformatic = require('@platformatic/kafka')

const [bootstrap, , ...only] = process.argv.slice(2)
const TIMEOUT_MS = 40000
const RECORDS = Array.from({ length: 200 }, (_, n) => ({ key: `k${n % 7}`, value: `value ${n}`, headers: { number: `${n}` } }))
const VALUES = RECORDS.map(record => record.value).sort()
const unique = stem => `${stem}-${randomUUID()}`
const soon = (promise, what) => Promise.race([
  promise,
  new Promise((resolve, reject) => setTimeout(() => reject(new Error(`${what}: not within ${TIMEOUT_MS} ms`)), TIMEOUT_MS).unref())
])

// Apache Kafka answers before every part of it knows what has changed.
async function eventually (wanted, ask) {
  const deadline = Date.now() + 15000
  while (true) {
    const found = await ask()
    if (found === wanted || Date.now() > deadline) return assert.strictEqual(found, wanted)
    await new Promise(resolve => setTimeout(resolve, 100))
  }
}

// --- kafkajs

// COMPAT_SECURITY (JSON) asks for TLS, and for a password or a certificate.
const asked = JSON.parse(process.env.COMPAT_SECURITY ?? 'null')
const own = asked?.certificate && readFileSync(asked.certificate)
const security = asked && {
  ssl: { ca: [readFileSync(asked.ca)], ...(own && { cert: own, key: own }) },
  ...(asked.mechanism && { sasl: { mechanism: asked.mechanism.toLowerCase(), username: asked.user, password: asked.password } })
}
const kafka = new Kafka({ clientId: 'compat', brokers: [bootstrap], logLevel: logLevel.NOTHING, retry: { retries: 5 }, ...security })

async function withAdmin (use) {
  const admin = kafka.admin()
  await admin.connect()
  try { return await use(admin) } finally { await admin.disconnect() }
}

async function withProducer (options, use) {
  const producer = kafka.producer({ allowAutoTopicCreation: false, ...options })
  await producer.connect()
  try { return await use(producer) } finally { await producer.disconnect() }
}

const created = async (stem, numPartitions = 1, more = {}) => {
  const topic = unique(stem)
  await withAdmin(admin => admin.createTopics({ waitForLeaders: true, topics: [{ topic, numPartitions, ...more }] }))
  return topic
}

// Members of one group until `count` values have come.
async function consumed (topic, groupId, count, { members = 1, ...options } = {}) {
  const values = []
  const consumers = Array.from({ length: members }, () => kafka.consumer({ groupId, ...options }))
  try {
    await soon(new Promise((resolve, reject) => {
      for (const consumer of consumers) {
        consumer.connect()
          .then(() => consumer.subscribe({ topics: [topic], fromBeginning: true }))
          .then(() => consumer.run({
            eachMessage: async ({ message }) => {
              values.push(message.value.toString())
              if (values.length >= count) resolve()
            }
          })).catch(reject)
      }
      if (!count) resolve()
    }), `${count} records`)
  } finally {
    await Promise.all(consumers.map(consumer => consumer.disconnect()))
  }
  return values.sort()
}

const cases = {
  async 'kafkajs-roundtrip-none' () {
    const topic = await created('node', 3)
    await withProducer({}, producer => producer.send({ topic, messages: RECORDS }))
    assert.deepStrictEqual(await consumed(topic, unique('g'), RECORDS.length), VALUES)
  },
  async 'kafkajs-roundtrip-gzip' () {
    const topic = await created('node', 3)
    await withProducer({}, producer => producer.send({ topic, messages: RECORDS, compression: CompressionTypes.GZIP }))
    assert.deepStrictEqual(await consumed(topic, unique('g'), RECORDS.length), VALUES)
  },
  async 'kafkajs-idempotence' () {
    const topic = await created('node')
    await withProducer({ idempotent: true, maxInFlightRequests: 1 }, async producer => {
      for (let from = 0; from < RECORDS.length; from += 20) {
        await producer.send({ topic, messages: RECORDS.slice(from, from + 20), acks: -1 })
      }
    })
    assert.deepStrictEqual(await consumed(topic, unique('g'), RECORDS.length), VALUES)
  },
  async 'kafkajs-group-of-two' () {
    const topic = await created('node', 4)
    await withProducer({}, producer => producer.send({ topic, messages: RECORDS }))
    const found = await consumed(topic, unique('g'), RECORDS.length, { members: 2, sessionTimeout: 10000, heartbeatInterval: 300 })
    assert.deepStrictEqual([...new Set(found)].sort(), VALUES)
  },
  async 'kafkajs-group-goes-on' () {
    const [topic, group] = [await created('node'), unique('g')]
    await withProducer({}, producer => producer.send({ topic, messages: RECORDS.slice(0, 100) }))
    await consumed(topic, group, 100)
    await withProducer({}, producer => producer.send({ topic, messages: RECORDS.slice(100) }))
    assert.deepStrictEqual(await consumed(topic, group, 100), RECORDS.slice(100).map(record => record.value).sort())
  },
  async 'kafkajs-transactions' () {
    const [topic, group] = [await created('node'), unique('g')]
    await withProducer({ transactionalId: unique('t'), idempotent: true, maxInFlightRequests: 1 }, async producer => {
      const kept = await producer.transaction()
      await kept.send({ topic, messages: [{ value: 'kept' }] })
      await kept.sendOffsets({ consumerGroupId: group, topics: [{ topic: topic, partitions: [{ partition: 0, offset: '1' }] }] })
      await kept.commit()
      const dropped = await producer.transaction()
      await dropped.send({ topic, messages: [{ value: 'dropped' }] })
      await dropped.abort()
    })
    await withProducer({}, producer => producer.send({ topic, messages: [{ value: 'plain' }] }))
    assert.deepStrictEqual(await consumed(topic, unique('g'), 2, { readUncommitted: false }), ['kept', 'plain'])
    const [offsets] = await withAdmin(admin => admin.fetchOffsets({ groupId: group, topics: [topic] }))
    assert.strictEqual(offsets.partitions[0].offset, '1')
  },
  async 'kafkajs-admin' () {
    const topic = await created('node', 2, { configEntries: [{ name: 'retention.ms', value: '3600000' }] })
    await withAdmin(async admin => {
      await eventually(true, async () => (await admin.listTopics()).includes(topic))
      await admin.createPartitions({ topicPartitions: [{ topic, count: 3 }] })
      await eventually(3, async () => (await admin.fetchTopicMetadata({ topics: [topic] })).topics[0].partitions.length)
      const { resources: [{ configEntries }] } = await admin.describeConfigs({ includeSynonyms: false, resources: [{ type: 2, name: topic }] })
      assert.strictEqual(configEntries.find(entry => entry.configName === 'retention.ms').configValue, '3600000')
      await admin.alterConfigs({ resources: [{ type: 2, name: topic, configEntries: [{ name: 'retention.ms', value: '60000' }] }] })
      await withProducer({}, producer => producer.send({ topic, messages: RECORDS.map(record => ({ ...record, partition: 0 })) }))
      assert.strictEqual((await admin.fetchTopicOffsets(topic)).find(one => one.partition === 0).high, '200')
      await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '50' }] })
      assert.strictEqual((await admin.fetchTopicOffsets(topic)).find(one => one.partition === 0).low, '50')
      const group = unique('g')
      await admin.setOffsets({ groupId: group, topic, partitions: [{ partition: 0, offset: '60' }] })
      const { groups: [described] } = await admin.describeGroups([group])
      assert.strictEqual(described.state, 'Empty')
      await admin.deleteGroups([group])
      assert.strictEqual((await admin.describeCluster()).brokers.length, 1)
      await admin.deleteTopics({ topics: [topic] })
    })
  },
  // --- @platformatic/kafka
  async 'platformatic-roundtrip' () {
    const topic = await created('node', 3)
    const found = await platformaticConsumed(topic, unique('g'), async () => platformaticSent(topic, {}))
    assert.deepStrictEqual(found, VALUES)
  },
  async 'platformatic-codecs' () {
    for (const compression of ['gzip', 'snappy', 'lz4']) { // it takes zstd from Node, which has it from 22 on
      const topic = await created('node', 1)
      assert.deepStrictEqual(await platformaticConsumed(topic, unique('g'), () => platformaticSent(topic, { compression })), VALUES)
    }
  },
  async 'platformatic-idempotence' () {
    const topic = await created('node', 1)
    const found = await platformaticConsumed(topic, unique('g'), () => platformaticSent(topic, { idempotent: true, acks: -1 }))
    assert.deepStrictEqual(found, VALUES)
  },
  async 'platformatic-admin' () {
    const admin = new platformatic.Admin({ clientId: 'compat', bootstrapBrokers: [bootstrap] })
    const topic = unique('node')
    try {
      await admin.createTopics({ topics: [topic], partitions: 2, replicas: 1 })
      await eventually(true, async () => (await admin.listTopics()).includes(topic))
      const metadata = await admin.metadata({ topics: [topic] })
      assert.strictEqual(metadata.topics.get(topic).partitionsCount, 2)
      assert.ok((await admin.listGroups()) instanceof Map)
      await admin.deleteTopics({ topics: [topic] })
    } finally {
      await admin.close()
    }
  }
}

async function platformaticSent (topic, options) {
  const producer = new platformatic.Producer({
    clientId: 'compat', bootstrapBrokers: [bootstrap], serializers: platformatic.stringSerializers, ...options
  })
  try {
    await producer.send({ messages: RECORDS.map(({ key, value, headers }) => ({ topic, key, value, headers })), ...options })
  } finally {
    await producer.close()
  }
}

async function platformaticConsumed (topic, groupId, send) {
  await send()
  const consumer = new platformatic.Consumer({
    clientId: 'compat', groupId, bootstrapBrokers: [bootstrap], deserializers: platformatic.stringDeserializers
  })
  const values = []
  try {
    const stream = await consumer.consume({ topics: [topic], mode: 'earliest', autocommit: true, maxWaitTime: 500 })
    await soon((async () => {
      for await (const message of stream) {
        values.push(message.value)
        if (values.length >= RECORDS.length) break
      }
    })(), `${RECORDS.length} records`)
    await stream.close()
  } finally {
    await consumer.close(true)
  }
  return values.sort()
}

async function main () {
  let failed = false
  for (const [name, run] of Object.entries(cases)) {
    if (only.length && !only.includes(name)) continue
    try {
      await soon(run(), name)
      console.log(`PASS ${name}`)
    } catch (error) {
      failed = true
      console.log(`FAIL ${name}: ${String(error.message).replaceAll('\n', ' ').slice(0, 500)}`)
    }
  }
  process.exit(failed ? 1 : 0)
}

main()
