import type { Tables } from '../sql/names.js'
import { id, number, type Table, type Words } from '../sql/schema.js'

export function reconcileTables(w: Words, t: Tables): readonly Table[] {
  return [
    {
      name: t.lease,
      parts: [
        `${w.word('name', 200)} NOT NULL`,
        id(w, 'holder'),
        number('fence'),
        number('until_at'),
        'PRIMARY KEY (name)',
      ],
    },
    {
      name: t.finding,
      parts: [
        id(w, 'activity_id'),
        `${w.word('finding_id', 200)} NOT NULL`,
        `${w.word('kind', 64)} NOT NULL`,
        w.word('sku_id', 64),
        w.word('order_no', 64),
        number('units'),
        `evidence ${w.text} NOT NULL`,
        `${w.word('repair', 64)} NOT NULL`,
        id(w, 'run'),
        number('first_seen_at'),
        number('last_seen_at'),
        w.word('outcome', 12),
        'repaired_at BIGINT',
        'PRIMARY KEY (finding_id, activity_id)',
      ],
      indexes: { by_activity: 'activity_id, repaired_at' },
    },
  ]
}
