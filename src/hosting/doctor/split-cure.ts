/** A sentence "what is wrong; how to put it right" as what was found and its cure. */
export function splitCure(sentence: string): [found: string, cure: string] {
  const at = sentence.indexOf(';');
  const cure = sentence.slice(at + 1).trim();
  return [sentence.slice(0, at), `${cure.charAt(0).toUpperCase()}${cure.slice(1)}`];
}
