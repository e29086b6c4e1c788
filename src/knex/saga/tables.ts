import type { Tables } from '../sql/names.js'
import { id, number, type Table, type Words } from '../sql/schema.js'

export function sagaTables(w: Words, t: Tables): readonly Table[] {
  return [
    {
      name: t.saga,
      parts: [
        id(w, 'saga_id'),
        id(w, 'kind'),
        `${w.word('state', 12)} NOT NULL`,
        `${w.word('direction', 12)} NOT NULL`,
        number('step'),
        `${w.word('step_name', 32)} NOT NULL`,
        `data ${w.text} NOT NULL`,
        id(w, 'fingerprint'),
        number('tries'),
        number('fence'),
        number('next_time'),
        w.word('reason', 200),
        `last_error ${w.text}`,
        number('created_at'),
        number('updated_at'),
        'PRIMARY KEY (saga_id)',
        "CHECK (state IN ('active', 'ended', 'parked'))",
        "CHECK (direction IN ('do', 'turn', 'undo'))",
      ],
      indexes: { by_due: 'state, kind, next_time' },
    },
  ]
}
