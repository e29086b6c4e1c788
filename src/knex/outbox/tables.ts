import type { Tables } from '../sql/names.js'
import { number, type Table, type Words } from '../sql/schema.js'

/** 0 due at `next_retry_time`; 1 sent and 2 parked, both then. While 0, `next_retry_time` is also where a lease ends. */
export const DUE = 0
export const SENT = 1
export const PARKED = 2

/** How topics and numbers of the library's own messages begin. */
export const OUR_TOPICS = 'seckill.'
export const OUR_NUMBERS = 'release:'

export function outboxTables(w: Words, t: Tables): readonly Table[] {
  return [
    {
      name: t.message,
      parts: [
        `id ${w.autoId}`,
        `${w.word('biz_no', 128)} NOT NULL`,
        `${w.word('topic', 64)} NOT NULL`,
        `payload ${w.text} NOT NULL`,
        'status SMALLINT NOT NULL DEFAULT 0',
        'retry_count INT NOT NULL DEFAULT 0',
        number('next_retry_time'),
        w.word('lease', 36),
        number('created_at'),
        `CONSTRAINT ${t.message}_biz_no UNIQUE (biz_no)`,
      ],
      // The first for what is sent or parked, the second so that nobody reads through another topic's backlog.
      indexes: { by_due: 'status, next_retry_time', by_topic: 'topic, status, next_retry_time' },
    },
  ]
}
