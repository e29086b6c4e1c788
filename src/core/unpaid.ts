/** The reason of a row closed at its deadline of payment: the one closing that late money may undo, by a new order. */
export const UNPAID = 'unpaid'
