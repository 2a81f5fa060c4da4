import { constants } from 'node:os';
import { Command } from 'commander';
import { UsageError } from '../../system/base/errors.ts';
import type { CommandContext, CommonOptions } from '../shared/context.ts';
import { rootOf } from '../shared/open.ts';

const KEYS = `
Keys:
  1 or s      scripts: what runs and waits, each tier, each script
  2 or r      runs of all scripts, newest first
  3 or w      the queue (work): its jobs, newest first
  4 or o      output of the script that runs now, as it is written
  ↑ ↓ or k j  select, or scroll; also page up, page down, home, end
  enter       open what is selected: a script, a run, a job
  esc         back
  ?           these keys
  q, ctrl-c   quit; scripts and jobs keep running`;

const EXAMPLES = `
Examples:
  runner watch                     the root of this folder
  runner watch --root ~/site
  ssh -t me@example.org runner watch`;

/** `runner watch`: how things stand, live, on the whole terminal. */
export function watchCommand(context: CommandContext): Command {
  const command = new Command('watch');
  return command
    .description('watch scripts, runs, the queue and output, live in this terminal')
    .addHelpText('after', `${KEYS}\n${EXAMPLES}`)
    .action(() => watch(context, command.optsWithGlobals<CommonOptions>()));
}

const REDRAW_MS = 1000;

async function watch(context: CommandContext, options: CommonOptions): Promise<void> {
  const { env, version, now, distFolder, stdout } = context;
  const { stdin } = process;
  if (!stdin.isTTY || !stdout.isTTY || env.TERM === 'dumb') {
    throw new UsageError(
      'runner watch needs a terminal; `npx folder-runner status` and `npx folder-runner report` print the same once.',
    );
  }
  const root = rootOf(context, options.root);
  const { openSite } = await import('../../dashboard/site.ts');
  const { openFullScreen } = await import('./full-screen.ts');
  const { Watch } = await import('./watch-screen.ts');
  const site = openSite({ root, env, version, now, distFolder });
  // First: from then on the terminal is given back.
  const signals = awaitSignal();
  const screen = openFullScreen({ stdin, stdout });
  const shown = new Watch(site, screen, context, KEYS);
  const timer = setInterval(() => shown.tick(), REDRAW_MS);
  const unfollow = site.feed.follow(() => shown.reload());
  try {
    const signal = await Promise.race([shown.left, screen.gone, signals.came]);
    if (signal !== null) context.setExitCode(128 + constants.signals[signal]);
  } finally {
    unfollow();
    clearInterval(timer);
    signals.ignore();
    screen.leave();
    site.close();
  }
}

/** What a terminal or a host ends programs by. */
const endings = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

function awaitSignal() {
  const { promise: came, resolve } = Promise.withResolvers<(typeof endings)[number]>();
  for (const signal of endings) process.on(signal, resolve);
  const ignore = (): void => {
    for (const signal of endings) process.off(signal, resolve);
  };
  return { came, ignore };
}
