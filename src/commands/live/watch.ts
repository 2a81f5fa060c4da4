import { constants } from 'node:os';
import { openSite } from '../../dashboard/site.ts';
import { UsageError } from '../../system/base/errors.ts';
import { watchKeys } from '../shared/choices.ts';
import type { CommandContext } from '../shared/context.ts';
import { rootOf } from '../shared/open.ts';
import type { Given } from '../table.ts';
import { openFullScreen } from './full-screen.ts';
import { Watch } from './watch-screen.ts';

const REDRAW_MS = 1000;

/** `runner watch`: how things stand, live, on the whole terminal. */
export async function watch(context: CommandContext, options: Given<'watch'>): Promise<void> {
  const { env, version, now, distFolder, stdout } = context;
  const { stdin } = process;
  if (!stdin.isTTY || !stdout.isTTY || env.TERM === 'dumb') {
    throw new UsageError(
      'runner watch needs a terminal; `npx folder-runner status` and `npx folder-runner report` print the same once.',
    );
  }
  const root = rootOf(context, options.root);
  const site = openSite({ root, env, version, now, distFolder });
  // First: from then on the terminal is given back.
  const signals = awaitSignal();
  const screen = openFullScreen({ stdin, stdout });
  const shown = new Watch(site, screen, context, watchKeys);
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

/** Signals by which a terminal or a host ends programs. */
const endings = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

function awaitSignal() {
  const { promise: came, resolve } = Promise.withResolvers<(typeof endings)[number]>();
  for (const signal of endings) process.on(signal, resolve);
  const ignore = (): void => {
    for (const signal of endings) process.off(signal, resolve);
  };
  return { came, ignore };
}
