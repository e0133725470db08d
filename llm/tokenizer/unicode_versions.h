// Characters that came to Unicode after the tables of Hugging Face's tokenizers were made (version
// 8 for BERT's categories, 9 for normal forms, in release 0.23): to them they are no marks and no
// punctuation. Models were trained with those ids, so newer characters stay what they were then.
// The lists are where tokenizers 0.23.3 and Unicode 14 differ, and the additions of 15 and 16.
#pragma once

namespace vesper {

bool is_mark_of_unicode_9(char32_t c);
bool is_mark_since_unicode_10(char32_t c);
bool is_punctuation_since_unicode_9(char32_t c);

}  // namespace vesper
