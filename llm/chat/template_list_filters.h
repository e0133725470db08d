// Filters for lists.
#pragma once

#include <string_view>

#include "llm/chat/template_evaluator.h"

namespace vesper::chat {

// By name, or null.
Filter find_list_filter(std::string_view name);

}  // namespace vesper::chat
