import { z } from '@hono/zod-openapi';
import { incidentEndings, outcomes } from '../../store/words.ts';
import { knownNumber, knownText, orNull } from './fields.ts';
import { instantSchema } from './route.ts';

/** An instant that may not have come, or not be known. */
export const knownInstant = instantSchema.nullable();

export const pauseSchema = z
  .object({
    name: z.string().openapi({ description: '`*`, a tier, a script, `queue`, or `queue/` and a pattern of job names' }),
    kind: z.enum(['pause', 'fail-fast']),
    until: knownInstant.openapi({ description: 'Null: until it is resumed' }),
    since: knownInstant,
  })
  .openapi('Pause');

export const outcomeSchema = z.enum(outcomes).openapi('Outcome');

export const livenessSchema = z.enum(['alive', 'dead', 'on-another-host']).openapi('Liveness');

const deviationSchema = z
  .object({
    measure: z.enum(['duration', 'memory', 'creep', 'output', 'count']),
    name: z.string().openapi({ description: 'The name of the count; empty for other measures' }),
    value: z.number(),
    usual: z.number(),
    runs: z.int().openapi({ description: 'How many runs it was compared with' }),
    since: knownInstant,
  })
  .openapi('Deviation');

const runErrorSchema = z.object({ name: knownText, message: knownText, stack: knownText }).openapi('RunError');

/** As `--json` has it. */
const runFields = {
  id: z.int(),
  script: z.string(),
  tier: z.string(),
  job: z.int().nullable().openapi({ description: 'The number of a job of the queue; null: it is a run of a script' }),
  outcome: outcomeSchema,
  attempt: z.int(),
  scheduledFor: knownInstant.openapi({
    description: 'When it was due, by the crontab, its schedule or its rule; null: not known',
  }),
  startedAt: knownInstant,
  finishedAt: knownInstant,
  durationMs: knownNumber,
  userCpuMs: knownNumber,
  systemCpuMs: knownNumber,
  maxRssBytes: knownNumber,
  measuredBy: z.enum(['self', 'sampled']).nullable(),
  exitCode: z.int().nullable(),
  signal: knownText,
  reason: knownText.openapi({ description: 'How it ended, in one sentence; null: it succeeded' }),
  warning: knownText,
  suspect: z.boolean().openapi({ description: 'Whether it succeeded though its output tells of a failure' }),
  error: orNull(runErrorSchema),
  contentHash: knownText,
  pid: z.int().nullable(),
  outputBytes: knownNumber,
  outputDroppedBytes: knownNumber,
  counts: z.record(z.string(), z.number()),
  deviations: z.array(deviationSchema),
};

export const runSchema = z.object(runFields).openapi('Run');

/** With what a page says of it. */
export const toldRunSchema = z
  .object({
    ...runFields,
    summary: knownText.openapi({ description: 'One line: why it did not succeed' }),
    unusual: z.array(z.string()).openapi({ description: 'Its differences from earlier runs, one line each' }),
  })
  .openapi('ToldRun');

export const runningSchema = z
  .object({
    id: z.int(),
    script: z.string(),
    startedAt: knownInstant,
    pid: z.int().nullable(),
    host: z.string(),
    liveness: livenessSchema,
    isOrphan: z.boolean(),
    attempt: z.int(),
    maxRssBytes: knownNumber,
  })
  .openapi('RunningRun');

export const waitingSchema = z
  .object({
    script: z.string(),
    tier: z.string(),
    state: z.enum(['queued', 'claimed', 'deferred', 'retrying']),
    since: knownInstant,
    runAt: knownInstant,
    attempts: z.int(),
    reason: knownText,
  })
  .openapi('WaitingScript');

export const incidentSchema = z
  .object({
    id: z.int(),
    subject: z.string().openapi({ description: 'A script or handler, a tier, `queue`, `log`, `disk`, `alerts`' }),
    code: z.string(),
    severity: z.enum(['warning', 'critical']),
    occurrences: z.int(),
    error: knownText,
    hint: knownText,
    openedAt: knownInstant,
    lastAt: knownInstant,
    recoveredAt: knownInstant.openapi({ description: 'Null: it is not over' }),
    ending: orNull(z.enum(incidentEndings)).openapi({
      description: 'How it ended otherwise than by getting well; `gone`: `hint` says why',
    }),
    toldAt: knownInstant,
    remindedAt: knownInstant,
    recoveryToldAt: knownInstant,
    acknowledgedAt: knownInstant,
    lastRun: z.int().nullable(),
  })
  .openapi('Incident');

/** A script's file, as it is now. */
export const scriptFileSchema = z
  .object({
    script: z.string(),
    path: z.string(),
    options: z.object({
      description: z.string().optional(),
      timeoutMs: z.number().optional(),
      retries: z.int().optional(),
      retryDelay: z.object({ firstMs: z.number(), factor: z.number(), longestMs: z.number() }).optional(),
      onCrash: z.enum(['retry', 'skip', 'fail']).optional(),
      offline: z.enum(['run', 'wait']).optional(),
      memoryBytes: z.number().optional(),
      warnRssBytes: z.number().optional(),
      maxRssBytes: z.number().optional(),
      rssSustainMs: z.number().optional(),
      maxOutputBytes: z.number().optional(),
      nice: z.int().optional(),
      env: z.array(z.string()).optional().openapi({ description: 'Names of variables' }),
      isolate: z.boolean().optional(),
      alertAfter: z.int().optional(),
      tags: z.array(z.string()).optional(),
      host: z.array(z.string()).optional().openapi({ description: 'The machines that it runs on: globs' }),
      everyHost: z.boolean().optional().openapi({ description: 'Each machine runs it' }),
      schedule: z.string().optional().openapi({ description: 'When it runs, within its tier' }),
      timezone: z.string().optional(),
      reboot: z.boolean().optional().openapi({ description: 'It runs once after each boot' }),
      isPinged: z.boolean().openapi({ description: 'A service is called with each run; its URL is a secret' }),
    }),
    refusals: z.array(z.string()).openapi({ description: 'Why it is refused' }),
    warnings: z.array(z.string()),
    pause: orNull(pauseSchema),
  })
  .openapi('ScriptFile');
