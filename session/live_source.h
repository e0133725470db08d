// A stream read ahead by a thread of its own, so that sound keeps coming in while the engine works.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "audio/reader.h"

namespace vesper {

class LiveSource {
 public:
  // Begins to read. The thread waits when it is a minute ahead; it ends with the stream, or with
  // the process: a read that blocks cannot be called off.
  explicit LiveSource(AudioReader reader);
  ~LiveSource();
  LiveSource(const LiveSource&) = delete;
  LiveSource& operator=(const LiveSource&) = delete;

  // Waits for at least `n` samples (16 kHz mono) or the stream's end, and takes all that are there;
  // none once the stream has ended and everything was taken. Throws what reading threw, after the
  // samples before. If `is_stopped`, asked now and then, says so the stream ends here.
  std::vector<float> take(size_t n, const std::function<bool()>& is_stopped = {});

  // Samples that are there to be taken.
  size_t waiting() const;
  // Whether nothing more will come to be taken.
  bool is_over() const;
  // Whether the sound comes about as fast as it is heard, not as fast as a file can be read.
  bool is_paced() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace vesper
