import { statfsSync } from 'node:fs';

export type JournalMode = 'wal' | 'truncate';

/**
 * File systems on which WAL's shared memory is known to work. On any other, network homes above
 * all, a rollback journal is the safe choice (https://sqlite.org/wal.html, "disadvantages"). Not
 * Btrfs and ZFS, which copy on write: where the quota is used up, writing to the mapped `-shm` ends
 * the process by SIGBUS there.
 */
const localFileSystems: ReadonlySet<number> = new Set([
  0xef53, // ext2, ext3, ext4
  0x58465342, // XFS
  0x01021994, // tmpfs
  0x794c7630, // overlayfs
  0xf2f52010, // F2FS
]);

export function chooseJournalMode(folder: string): JournalMode {
  return localFileSystems.has(Number(statfsSync(folder).type)) ? 'wal' : 'truncate';
}
