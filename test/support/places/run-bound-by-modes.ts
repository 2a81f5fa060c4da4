import { commandPath, type Ended, type Place } from '../calls/run-command.ts';
import { startProcess } from '../calls/start-command.ts';

/** The built command by somebody whom the modes of files bind; root without what lets it read anything. */
export function runBoundByModes(args: readonly string[], place: Place): Promise<Ended> {
  const command = [process.execPath, commandPath, ...args] as const;
  const isRoot = process.geteuid?.() === 0;
  const [program, ...rest] = isRoot ? (['setpriv', WITHOUT_OVERRIDE, ...command] as const) : command;
  return startProcess(program, rest, place).ended;
}

const WITHOUT_OVERRIDE = '--bounding-set=-dac_override,-dac_read_search';
