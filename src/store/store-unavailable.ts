/** Why there is no log to write to. */
export type StoreFailureKind =
  | 'locked'
  | 'read-only'
  | 'full'
  | 'broken'
  | 'newer-schema'
  | 'foreign'
  | 'no-driver'
  | 'io';

/** The activity log cannot be opened. The message says what happened and what to do about it. */
export class StoreUnavailable extends Error {
  override readonly name = 'StoreUnavailable';
  readonly kind: StoreFailureKind;

  constructor(kind: StoreFailureKind, message: string, options?: ErrorOptions) {
    super(message, options);
    this.kind = kind;
  }
}
