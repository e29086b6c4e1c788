/** The methods used of a kafkajs 2 client (`new Kafka({ brokers })`). The host makes it; each queue opens and closes its own connections. */
export interface KafkaLike {
  producer(config: {
    idempotent: boolean
    allowAutoTopicCreation: boolean
    retry: { retries: number }
  }): KafkaProducer
  consumer(config: {
    groupId: string
    allowAutoTopicCreation: boolean
    sessionTimeout: number
    rebalanceTimeout: number
    heartbeatInterval: number
    maxWaitTimeInMs: number
    metadataMaxAge: number
    retry: { restartOnFailure: (error: Error) => Promise<boolean> }
  }): KafkaConsumer
  admin(): KafkaAdmin
}

export interface KafkaProducer {
  connect(): Promise<void>
  send(record: {
    topic: string
    acks: number
    messages: { key: string; value: string; headers?: Record<string, string> }[]
  }): Promise<unknown>
  disconnect(): Promise<void>
}

export interface KafkaConsumer {
  connect(): Promise<void>
  subscribe(to: { topic: string; fromBeginning: boolean }): Promise<void>
  run(config: {
    autoCommit: boolean
    eachBatchAutoResolve: boolean
    eachBatch: (payload: EachBatch) => Promise<void>
  }): Promise<void>
  on(
    event: 'consumer.crash',
    listener: (event: { payload: { error: Error; restart: boolean } }) => void,
  ): unknown
  on(event: 'consumer.group_join', listener: () => void): unknown
  pause(topics: { topic: string }[]): void
  resume(topics: { topic: string }[]): void
  disconnect(): Promise<void>
}

/** What kafkajs hands to `eachBatch`: the messages of one fetch from one partition. */
export interface EachBatch {
  readonly batch: { readonly partition: number; readonly messages: readonly KafkaMessage[] }
  resolveOffset(offset: string): void
  heartbeat(): Promise<void>
  pause(): () => void
  /** kafkajs 2.2.4 passes the metadata of an offset on, though its types do not name it. */
  commitOffsetsIfNecessary(offsets: {
    topics: {
      topic: string
      partitions: { partition: number; offset: string; metadata?: string }[]
    }[]
  }): Promise<void>
}

export interface KafkaMessage {
  readonly offset: string
  readonly key?: Buffer | null
  readonly value: Buffer | null
}

export interface KafkaAdmin {
  connect(): Promise<void>
  disconnect(): Promise<void>
  listTopics(): Promise<string[]>
  fetchTopicMetadata(o: { topics: string[] }): Promise<{
    topics: { name: string; partitions: { partitionId: number }[] }[]
  }>
  fetchTopicOffsets(topic: string): Promise<{ partition: number; low: string; high: string }[]>
  fetchOffsets(o: { groupId: string; topics: string[] }): Promise<
    {
      topic: string
      partitions: { partition: number; offset: string; metadata: string | null }[]
    }[]
  >
}
