import { tell } from '../components/toast.tsx';
import { changes, UNREACHABLE } from '../data.ts';

/** The server's messages about fields of the request, by field name. */
type FieldProblems = Readonly<Record<string, string>>;

interface Problem {
  readonly title?: string;
  readonly detail?: string;
  readonly errors?: readonly { readonly name: string; readonly detail: string }[];
}

/** The server's refusal, in its own words. */
export class Refused extends Error {
  readonly fields: FieldProblems;

  constructor(problem: unknown) {
    const { detail, title, errors = [] } = (problem ?? {}) as Problem;
    // A sentence that names its value by itself stands in both.
    const others = errors.filter(({ detail: why }) => why !== detail);
    const told = others.map(({ name, detail: why }) => (name === '' ? why : `${name} ${why}`));
    super([detail ?? title ?? 'The server refused it, and did not say why.', ...told].join(' '));
    this.fields = Object.fromEntries(errors.map(({ name, detail: why }) => [name, why]));
  }
}

/**
 * The answer to what was sent; all that is shown is asked for again.
 *
 * @throws {Refused}
 */
export async function written<Body>(sent: Promise<{ data?: Body; error?: unknown }>): Promise<Body> {
  const { data, error } = await sent.catch(() => ({ data: undefined, error: { detail: UNREACHABLE } }));
  if (error !== undefined) throw new Refused(error);
  changes.value += 1;
  return data as Body;
}

/** Does something at once, without a dialog that could tell why it was refused. */
export async function attempt(work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    tell(error instanceof Error ? error.message : String(error), { isBad: true });
  }
}
