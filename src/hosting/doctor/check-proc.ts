import { existsSync, readdirSync } from 'node:fs';
import { type Check, note, ok } from './finding.ts';

export const checkProc: Check = {
  name: '/proc',
  run: () => {
    if (!existsSync('/proc/self/stat')) {
      return [
        note(
          'not there: memory and CPU time are known of Node scripts only, and the dead are told by their locks’ age',
          'Nothing needs to be done; a host that mounts /proc makes the figures complete.',
        ),
      ];
    }
    return [ok(`there; ${whatIsVisible()}`), ...childrenFiles()];
  },
};

function whatIsVisible(): string {
  return existsSync('/proc/1/stat')
    ? 'all processes are visible'
    : 'only your own processes are visible, which is enough';
}

/** A kernel without CONFIG_PROC_CHILDREN. */
function childrenFiles() {
  const thread = readdirSync('/proc/self/task')[0];
  if (existsSync(`/proc/self/task/${thread}/children`)) return [];
  return [
    note(
      'the kernel does not list the children of a process: of scripts that start others, only the first process is measured',
      'Nothing needs to be done.',
    ),
  ];
}
