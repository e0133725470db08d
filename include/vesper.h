/* The C API of Vesper: speech to text, text to text, texts to vectors, and models by name.
 *
 * This header includes all parts:
 *   vesper/base.h       errors, strings, cancellation, log, settings of loading a model
 *   vesper/inspect.h    what models and devices are; models by name, downloads
 *   vesper/speech.h     Whisper: files, samples, streams, batches, subtitles
 *   vesper/text.h       language models: prompts, chats, tokens, perplexity
 *   vesper/embedding.h  texts to vectors
 *
 *   vesper_whisper* whisper;
 *   vesper_transcript* transcript;
 *   if (vesper_whisper_open("tiny.en", NULL, &whisper) != VESPER_OK) { puts(vesper_last_error()); ... }
 *   if (vesper_whisper_transcribe_file(whisper, "talk.wav", NULL, NULL, NULL, &transcript) == VESPER_OK)
 *     puts(vesper_transcript_text(transcript));
 *   vesper_transcript_free(transcript);
 *   vesper_whisper_close(whisper);
 */
#ifndef VESPER_H_
#define VESPER_H_

#include <vesper/base.h>
#include <vesper/embedding.h>
#include <vesper/inspect.h>
#include <vesper/speech.h>
#include <vesper/text.h>

#endif /* VESPER_H_ */
