/** Control characters, and those that turn the direction of text: they would garble logs and mails. */
const unprintable = /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/gu;

/** The name with each unprintable character written as JSON does: `a\nb`. */
export function printableName(name: string): string {
  return name.replace(unprintable, (character) => {
    const text = JSON.stringify(character).slice(1, -1);
    return text === character
      ? `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
      : text;
  });
}
