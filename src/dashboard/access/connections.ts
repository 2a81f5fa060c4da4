import { readFileSync } from 'node:fs';
import type { Server } from 'node:http';
import type { Socket } from 'node:net';

/** The connections of a server, and who has them. */
export interface Connections {
  /** Somebody was let in by it. */
  noteCaller(socket: Socket, caller: string): void;
}

/** More than viewers need; a host may allow fewer files. */
const MOST = 1_500;

/** Files of the log, of the package, of programs that are started. */
const OTHER_FILES = 200;

/**
 * Keeps room for everybody: where there are too many connections, whoever has the most of them loses the oldest. All
 * who were not let in count as one.
 */
export function shareConnections(server: Server, most = mostConnections()): Connections {
  // In the order in which they came.
  const callers = new Map<Socket, string>();
  server.on('connection', (socket: Socket) => {
    if (callers.size >= most) endOne(callers);
    callers.set(socket, '');
    socket.once('close', () => callers.delete(socket));
  });
  return {
    noteCaller: (socket, caller) => {
      if (callers.has(socket)) callers.set(socket, caller);
    },
  };
}

function endOne(callers: Map<Socket, string>): void {
  const counts = new Map<string, number>();
  for (const caller of callers.values()) counts.set(caller, (counts.get(caller) ?? 0) + 1);
  const most = Math.max(...counts.values());
  for (const [socket, caller] of callers) {
    if (counts.get(caller) !== most) continue;
    callers.delete(socket);
    return void socket.destroy();
  }
}

/** Node has raised its limit of open files to the highest one that it may have. */
function mostConnections(): number {
  const files = Number(/^Max open files\s+(\d+)/m.exec(readLimits())?.[1] ?? MOST + OTHER_FILES);
  return Math.max(50, Math.min(MOST, files - OTHER_FILES));
}

function readLimits(): string {
  try {
    return readFileSync('/proc/self/limits', 'latin1');
  } catch {
    return '';
  }
}
