import type { AlertMessage } from '../message.ts';

/** What became of a message: it has arrived, or why not. */
export type Sent =
  | {
      readonly ok: true;
      /** What the other side said. */
      readonly answer: string;
      /** Whom it has refused, while others have it: to send it again would bring it to those twice. */
      readonly refused?: string;
    }
  | {
      readonly ok: false;
      /** One sentence, without secrets. */
      readonly reason: string;
      /** The same again would be refused again. */
      readonly isPermanent: boolean;
      /** How long the other side wants to be left alone; null: it does not say. */
      readonly retryAfterMs: number | null;
    };

/** It may be another time. */
export function failed(reason: string, isPermanent = false): Sent {
  return { ok: false, reason, isPermanent, retryAfterMs: null };
}

/** One message on its way. */
export interface Outgoing {
  /** The same each time that it is tried, so that whoever gets it twice can tell. */
  readonly id: string;
  /** UTC epoch milliseconds. */
  readonly createdAt: number;
  readonly message: AlertMessage;
}

/** Tells the messages of one root from those of others, without saying where it is. */
export function siteOf(root: string): string {
  // Loaded for this alone: whoever only looks at channels needs none.
  return process.getBuiltinModule('node:crypto').createHash('sha256').update(root).digest('hex').slice(0, 12);
}

/** What sending needs of the place that it happens in. */
export interface SendPlace {
  readonly root: string;
  readonly version: string;
  /** The runner's own. */
  readonly environment: NodeJS.ProcessEnv;
  /** Aborted when its time is over, or the runner is told to stop. */
  readonly signal: AbortSignal;
}

export const NO_SENDMAIL =
  'there is no sendmail here: set `smtp` of the channel to a mail server, such as $SMTP_URL with smtps://user:password@host';
