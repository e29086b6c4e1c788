import type { Tables } from '../sql/names.js'
import { id, number, type Table, type Words } from '../sql/schema.js'

/** What is kept of Redis: how far it had come, and in the end all of its records. */
export function sealTables(w: Words, t: Tables): readonly Table[] {
  return [
    {
      name: t.fence,
      parts: [
        id(w, 'activity_id'),
        number('epoch'),
        number('seq'),
        number('updated_at'),
        'PRIMARY KEY (activity_id)',
      ],
    },
    {
      name: t.seal,
      parts: [
        id(w, 'activity_id'),
        // Rises with every change of the records. The rest is null until they are sealed.
        number('generation'),
        w.word('version', 64),
        'epoch BIGINT',
        'records BIGINT',
        w.word('checksum', 64),
        'sealed_at BIGINT',
        'PRIMARY KEY (activity_id)',
      ],
    },
    {
      name: t.sealed,
      parts: [
        id(w, 'activity_id'),
        id(w, 'sku_id'),
        id(w, 'order_no'),
        id(w, 'user_id'),
        `${w.word('state', 12)} NOT NULL`,
        number('quantity'),
        number('reserved_at'),
        number('bucket'),
        id(w, 'version'),
        'PRIMARY KEY (activity_id, sku_id, order_no)',
        "CHECK (state IN ('held', 'confirmed', 'paid', 'released'))",
      ],
    },
  ]
}
