/** Tags of JSDoc, TSDoc, phpDocumentor, YARD and Doxygen: other people's, however near to ours. */
const foreignTags: ReadonlySet<string> = new Set(
  `abstract access alias alpha api arg argument async attention attr attribute augments author beta borrows
  brief bug callback category class classdesc code const constant constructor constructs copyright date decorator
  default defaultvalue deprecated desc description details emits endcode enum event eventproperty example
  examples exception exports extends external file fileoverview filesource fires flow for format func function
  generator global group hideconstructor hidden host ignore implements import inherit inheritdoc inline inner
  instance interface internal jest kind label lends lib license link linkcode linkplain listens main mainpage
  member memberof method methods migration mixes mixin mod module name namespace nocheck note noflow nosideeffects
  ns nullable option options overload override overview owner package packagedocumentation page par param parent
  pre preserve private privateremarks prop property protected prettier public raise raises readonly remark remarks
  requires ret retval return returns satisfies sealed section see seealso select short since source static
  subpackage suppress template templates test tests text this throw throws title todo toc ts-check
  ts-expect-error ts-ignore ts-nocheck tparam tutorial type typedef typeparam types usage use uses value var
  variation verbatim version virtual visibility vitest-environment warning yield yieldparam yieldreturn yields`.split(
    /\s+/,
  ),
);

export function isForeignTag(name: string): boolean {
  return foreignTags.has(name);
}
