import { findSecrets, type Masker, maskSecrets } from '../../../src/execution/secrets.ts';

/** Of what these settings and variables hold. */
export function createMasker(...known: Parameters<typeof findSecrets>): Masker {
  return maskSecrets(findSecrets(...known));
}
