import { readFileSync, writeSync } from 'node:fs';
import { callHandler } from './call-handler.ts';
import { describeUnsettled } from './describe-unsettled.ts';
import { type HandlerJob, UPDATE_FD } from './handler-contract.ts';
import { joinEntryPoint } from './join-entry-point.ts';
import type { HandlerEnd } from './probe-contract.ts';
import type { Unsettled } from './record-end.ts';

/** What is known of a handler's end while its process ends. */
export interface HandlerCall {
  unsettled(): Unsettled | null;
  end(): HandlerEnd | null;
}

/**
 * Calls the handler that this process is for, and ends the process with it, whatever else it left
 * open: as in a child that serves many jobs, only the handler's own end counts.
 */
export function callIsolatedHandler(scriptPath: string): HandlerCall {
  const job = JSON.parse(readFileSync(0, 'utf8')) as HandlerJob;
  let hasRunOut = false;
  let end: HandlerEnd | null = null;
  process.on('beforeExit', () => {
    hasRunOut = true;
  });
  joinEntryPoint(scriptPath, async (exported) => {
    end = await callHandler(exported, scriptPath, job, sendUpdate);
    process.exit(end.exitCode);
  });
  return {
    unsettled: () => (end === null ? describeUnsettled(hasRunOut) : null),
    end: () => end,
  };
}

/** The runner reads on until this process has ended, so what is written is as good as told. */
async function sendUpdate(data: string): Promise<void> {
  const line = Buffer.from(`${JSON.stringify(data)}\n`);
  for (let sent = 0; sent < line.length; ) sent += writeSync(UPDATE_FD, line, sent);
}
