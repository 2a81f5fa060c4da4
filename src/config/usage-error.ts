/**
 * Wrong use: the command prints the message, one sentence or one line per problem, and exits 2.
 * The message names what, where, what was expected, and how to cure it.
 */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}
