import type { Tables } from '../sql/names.js'
import { id as idOf, number, type Table, type Words } from '../sql/schema.js'

/**
 * A payment row holds one capture at most; further money of the same payment gets a row of its own. The CHECKs say
 * in the database's own words that no more is given back than came in.
 */
export function paymentTables(w: Words, t: Tables): readonly Table[] {
  const id = (name: string) => idOf(w, name)
  return [
    {
      name: t.payment,
      parts: [
        id('payment_id'),
        id('channel'),
        id('channel_payment_id'),
        w.word('ask_key', 140),
        id('order_no'),
        id('activity_id'),
        id('sku_id'),
        id('user_id'),
        `${w.word('status', 12)} NOT NULL`,
        w.word('reason', 255),
        number('amount_minor'),
        `${w.word('currency', 3)} NOT NULL`,
        w.word('trade_no', 64),
        number('captured_minor'),
        number('refunding_minor'),
        number('refunded_minor'),
        w.word('paid_order_no', 64),
        `cashier ${w.text}`,
        number('tries'),
        number('next_at'),
        number('created_at'),
        'received_at BIGINT',
        number('updated_at'),
        'PRIMARY KEY (payment_id)',
        `CONSTRAINT ${t.payment}_ask UNIQUE (ask_key)`,
        `CONSTRAINT ${t.payment}_trade UNIQUE (channel, trade_no)`,
        `CONSTRAINT ${t.payment}_paid UNIQUE (paid_order_no)`,
        "CHECK (status IN ('CREATED', 'CLOSED', 'RECEIVED', 'ANOMALY', 'PAID', 'REFUNDING', 'REFUNDED'))",
        "CHECK (status <> 'PAID' OR paid_order_no IS NOT NULL)",
        'CHECK (0 <= refunded_minor AND refunded_minor <= refunding_minor AND refunding_minor <= captured_minor)',
      ],
      indexes: {
        by_order: 'order_no',
        by_sku: 'activity_id, sku_id, order_no, payment_id',
        by_due: 'status, next_at',
      },
    },
    {
      name: t.refund,
      parts: [
        id('refund_id'),
        id('payment_id'),
        id('channel'),
        id('channel_payment_id'),
        id('trade_no'),
        number('amount_minor'),
        `${w.word('currency', 3)} NOT NULL`,
        `${w.word('reason', 255)} NOT NULL`,
        `${w.word('state', 12)} NOT NULL`,
        number('tries'),
        number('next_at'),
        number('created_at'),
        number('updated_at'),
        'PRIMARY KEY (refund_id)',
        "CHECK (state IN ('REFUNDING', 'REFUNDED', 'PARKED'))",
        'CHECK (amount_minor > 0)',
      ],
      indexes: { by_due: 'state, next_at', by_payment: 'payment_id' },
    },
  ]
}
