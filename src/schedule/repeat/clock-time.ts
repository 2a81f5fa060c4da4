const timeForm = /^([01]?\d|2[0-3]):([0-5]\d)$/;

/** The minute of the day of `10:00`; null: not a time. */
export function readClockTime(word: string): number | null {
  const [, hour, minute] = timeForm.exec(word) ?? [];
  return hour === undefined ? null : Number(hour) * 60 + Number(minute);
}

/** `08:00` for `8am`, `8`, `0800`; null: no guess. */
export function guessTime(word: string): string | null {
  if (word === 'noon' || word === 'midnight') return word === 'noon' ? '12:00' : '00:00';
  const [, hour, minute = '00', half] = /^(\d{1,2}?)[:.h]?(\d\d)? ?([ap]m)?$/.exec(word) ?? [];
  if (hour === undefined) return null;
  const hours = half === undefined ? Number(hour) : (Number(hour) % 12) + (half === 'pm' ? 12 : 0);
  const time = `${String(hours).padStart(2, '0')}:${minute}`;
  return readClockTime(time) === null ? null : time;
}
