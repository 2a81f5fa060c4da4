import type { Driver } from '../../../src/store/sqlite/driver.ts';

/** As on a file system where only this kind of journal is to be had. */
export function withJournal(driver: Driver, journal: string): Driver {
  return {
    ...driver,
    open: (...place) => {
      const connection = driver.open(...place);
      const pragma = (text: string): unknown => connection.pragma(text.replace(/(?<=^journal_mode = )\w+/, journal));
      return Object.create(connection, { pragma: { value: pragma } });
    },
  };
}
