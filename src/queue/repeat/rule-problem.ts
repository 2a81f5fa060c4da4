const longestShown = 80;

/** One sentence: which rule, and what is wrong in it. */
export function blameRule(text: string, fault: string): { readonly problem: string } {
  const end = /[.?]$/.test(fault) ? '' : '.';
  return { problem: `The repeat rule ${quote(text)} is wrong: ${fault}${end}` };
}

/** What was found, as JSON so that blanks and control characters are seen, and not all of a long one. */
export function quote(text: string): string {
  const letters = [...text];
  const shown =
    letters.length <= longestShown ? text : `${letters.slice(0, longestShown).join('')}…`;
  return JSON.stringify(shown);
}
