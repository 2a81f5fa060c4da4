import { readdirSync } from 'node:fs';
import { errorCode } from './error-code.ts';

/** What is in a folder; nothing where there is no folder. */
export function listNames(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    if (['ENOENT', 'ENOTDIR'].includes(errorCode(error))) return [];
    throw error;
  }
}
