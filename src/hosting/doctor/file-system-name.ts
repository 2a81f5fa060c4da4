import { statfsSync } from 'node:fs';
import { chooseJournalMode } from '../../store/sqlite/journal-mode.ts';
import { type Finding, note, ok } from './finding.ts';

/** The numbers that the kernel has for them (statfs(2)). */
const names: ReadonlyMap<number, string> = new Map([
  [0xef53, 'ext4'],
  [0x58465342, 'XFS'],
  [0x9123683e, 'Btrfs'],
  [0x2fc12fc1, 'ZFS'],
  [0x01021994, 'tmpfs'],
  [0x794c7630, 'overlayfs'],
  [0xf2f52010, 'F2FS'],
  [0x6969, 'NFS'],
  [0xfe534d42, 'SMB'],
  [0xff534d42, 'CIFS'],
  [0x65735546, 'FUSE'],
  [0x01021997, '9p'],
  [0x00c36400, 'Ceph'],
  [0x0bd00bd0, 'Lustre'],
  [0x01161970, 'GFS2'],
  [0x7461636f, 'OCFS2'],
]);

const TMPFS = 0x01021994;

export function describeFileSystem(folder: string): Finding {
  const type = Number(statfsSync(folder).type);
  const name = names.get(type) ?? `of a kind that is not known (0x${type.toString(16)})`;
  if (type === TMPFS) {
    return note(
      `${name}: in memory, gone with the next start of the machine`,
      'Move the root to a disk.',
    );
  }
  if (chooseJournalMode(folder) === 'wal') return ok(`${name}, on this machine`);
  return note(
    `${name}, perhaps over a network: the log keeps a rollback journal, which is slower and safe there`,
    'Nothing needs to be done; a root on a disk of the machine itself is faster.',
  );
}
