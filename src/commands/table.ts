import type { CommandName } from '../system/base/command-names.ts';
import { type Definition, define, type GivenTo, type Loads, readBudget } from './shared/command.ts';
import { firstDay } from './table/first-day.ts';
import { folder } from './table/folder.ts';
import { queue } from './table/queue.ts';
import { watching } from './table/watching.ts';

/** `runner <tier>`. */
export const tierCall = define({
  tier: {
    about: 'Runs the scripts of a folder and keeps a log of every run.',
    args: { '[tier]': 'run every script of jobs/<tier>, as cron does' },
    options: {
      '--budget <duration>': {
        about: 'total time for this call; scripts that would exceed it wait for the next call',
        read: readBudget,
      },
      '--dry-run': 'with a tier: show what would run, in which order and how; run nothing',
      '--json': 'with --dry-run: as JSON',
    },
    load: async () => (await import('./run/due.ts')).tier,
  },
});

tierCall satisfies Loads<typeof tierCall>;

const all = { ...firstDay, ...queue, ...watching, ...folder };

type All = typeof all;

/** Every command. A command's code is loaded when it is called. */
export const commandTable: Readonly<Record<CommandName, Definition>> = all satisfies Loads<All>;

type Token = All['web']['commands']['token']['commands'];
type Alert = All['alert']['commands'];

interface Others {
  readonly tier: (typeof tierCall)['tier'];
  readonly 'incidents close': All['incidents']['commands']['close'];
  readonly 'alert add': Alert['add'];
  readonly 'alert list': Alert['list'];
  readonly 'alert remove': Alert['remove'];
  readonly 'alert test': Alert['test'];
  readonly 'web token add': Token['add'];
  readonly 'web token list': Token['list'];
  readonly 'web token revoke': Token['revoke'];
}

/** The arguments and options of a command, by name. */
export type Given<Name extends keyof (All & Others)> = GivenTo<(All & Others)[Name]>;
