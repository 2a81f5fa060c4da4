/** Who sends. */
export interface Sender {
  readonly resource: Readonly<Record<string, string>>;
  /** The runner's. */
  readonly version: string;
  readonly root: string;
}

export interface Attribute {
  readonly key: string;
  readonly value: AttributeValue;
}

type AttributeValue =
  | { readonly stringValue: string }
  | { readonly intValue: string }
  | { readonly doubleValue: number }
  | { readonly boolValue: boolean };

/** What is null is unknown, and left out. */
export function attributesOf(values: Readonly<Record<string, string | number | boolean | null>>): Attribute[] {
  return Object.entries(values).flatMap(([key, value]) => (value === null ? [] : { key, value: toValue(value) }));
}

function toValue(value: string | number | boolean): AttributeValue {
  if (typeof value === 'boolean') return { boolValue: value };
  if (typeof value === 'string') return { stringValue: value };
  // 64 bits are written as text: not every reader of JSON has numbers of that size.
  return Number.isInteger(value) ? { intValue: String(value) } : { doubleValue: value };
}

/** What is known of who has measured. */
export function scope({ version }: Sender) {
  return { name: 'folder-runner', version };
}

/** As text: a number of JavaScript does not hold so many digits. */
export function toNanoseconds(ms: number): string {
  const whole = Math.floor(ms);
  return String(BigInt(whole) * 1_000_000n + BigInt(Math.round((ms - whole) * 1_000_000)));
}
