import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';

/** By which tools that look for leaked secrets know it. */
const PREFIX = 'frt_';

/** A new token: 256 random bits. */
export function makeToken(): string {
  return PREFIX + randomBytes(32).toString('base64url');
}

const tokenForm = /^frt_[\w-]{43}$/;

/** Whether it can be one: anything else is not looked for. */
export function isTokenLike(text: string): boolean {
  return tokenForm.test(text);
}

/** SHA-256, hex: all that is stored of a token. A token is random enough that no slower hash is needed. */
export function hashOf(token: string): string {
  return createHash('sha256').update(token).digest('hex');
}

/** Takes the same time wherever they differ. */
export function isSame(one: string, other: string): boolean {
  const [left, right] = [createHash('sha256').update(one).digest(), createHash('sha256').update(other).digest()];
  return timingSafeEqual(left, right);
}
