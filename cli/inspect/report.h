// The results of `inspect` as text for terminals. session/inspection/reports.h has them as JSON.
#pragma once

#include <string>
#include <vector>

#include "session/conversion.h"
#include "session/inspection/command_table.h"
#include "session/inspection/inspection.h"
#include "session/inspection/profile.h"
#include "session/models/model_store.h"

namespace vesper {

std::string summary_text(const ModelSummary& summary);
std::string metadata_text(const ModelDescription& model, const std::vector<std::string>& globs);
std::string tensors_text(const TensorList& list);
std::string tokens_text(const TextTokens& text);
std::string checksums_text(const std::vector<FileChecksum>& checksums);
std::string verification_text(const ModelVerification& verification);
std::string conversion_text(const ConversionReport& report);
std::string difference_text(const ModelDifference& difference);
std::string devices_text(const std::vector<DeviceDescription>& devices);
std::string models_text(const std::vector<StoredModel>& models);
std::string table_text(const std::vector<TablePass>& passes);
std::string profile_text(const Profile& profile);

}  // namespace vesper
