/** What stands where a figure or an instant is unknown. */
export const UNKNOWN = '–';
