// The documents of the inspection: JSON of each result, and the files of a profile. `inspect
// --json` prints them, and the C API returns them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "session/conversion.h"
#include "session/inspection/command_table.h"
#include "session/inspection/inspection.h"
#include "session/inspection/profile.h"
#include "session/models/model_store.h"

namespace vesper {

using ReportJson = nlohmann::ordered_json;

// One line of ASCII without its end; other characters are escaped, and bytes that are not UTF-8
// become U+FFFD.
std::string report_text(const ReportJson& json);

ReportJson summary_json(const ModelSummary& summary);
// Of the keys that match one of the globs.
ReportJson metadata_json(const ModelDescription& model, const std::vector<std::string>& globs);
ReportJson tensors_json(const TensorList& list);
ReportJson tokens_json(const TextTokens& text);
ReportJson checksums_json(const std::vector<FileChecksum>& checksums);
ReportJson verification_json(const ModelVerification& verification);
ReportJson difference_json(const ModelDifference& difference);
ReportJson devices_json(const std::vector<DeviceDescription>& devices);
ReportJson stored_models_json(const std::vector<StoredModel>& models);
// Name, kind, repository, and files with their digests.
ReportJson known_models_json();
ReportJson table_json(const std::vector<TablePass>& passes);
ReportJson conversion_json(const ConversionReport& report);
ReportJson profile_json(const Profile& profile);

// One line per stage, after a line with the names of the columns.
std::string profile_csv(const Profile& profile);
// Chrome's trace format: each stage once per pass, with its mean time.
std::string profile_trace(const Profile& profile);

}  // namespace vesper
